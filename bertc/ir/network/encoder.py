"""A transformer encoder with every dimension resolved, and its weight table."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Annotated, Any, Self

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import Dim, Weight, affine, default_init, once
from bertc.ir.blocks import in_blocks
from bertc.ir.methods.adapter import NO_ADAPTER, Adapter
from bertc.ir.network.attention import Attention
from bertc.ir.network.body_node import Attended, BodyNode, Wanted, is_below
from bertc.ir.network.ffn import Activation, Ffn
from bertc.ir.network.layer import Dropout, EncoderLayer, LayerWidths, one_or_all
from bertc.ir.network.norm import Norm, NormFunction
from bertc.ir.network.positions import LearnedPositions, Positions
from bertc.ir.network.residual import PLAIN_STREAM, Residual
from bertc.ir.network.sharing import OUTPUTS, SharedPart, scale_by_depth, scheme_of
from bertc.ir.network.table import table_weight
from bertc.ir.own import Own

DECODER = "decoder_positions"
"""The name of the table that the queries of the mask decoder add."""


class Encoder(BodyNode):
    """Token ids (batch, seq) to hidden states (batch, seq, hidden).

    ``languages`` have embeddings (XLM). ``attention_owner[l]`` and ``ffn_owner[l]`` name the layer
    whose weights layer l uses. ``causal``: a token attends to itself and earlier ones.
    ``two_streams``: there is an embedding for the query stream (XLNet 2.3).
    """

    positions: Positions
    segments: Annotated[int, Field(ge=0, le=1000)]
    attention: Attention
    ffn: Ffn
    norm: Norm
    layers: tuple[LayerWidths, ...]
    attention_owner: tuple[int, ...]
    ffn_owner: tuple[int, ...]
    two_streams: bool
    dropout: Dropout
    adapt: Annotated[Adapter, Field(exclude_if=NO_ADAPTER.__eq__)] = NO_ADAPTER
    residual: Annotated[Residual, Field(exclude_if=PLAIN_STREAM.__eq__)] = PLAIN_STREAM

    body_kind = "transformer"
    packs = compiles = attends = True

    @property
    def head_norm(self) -> NormFunction:
        norm, affine = self.norm.of_heads, self.head.affine
        return norm if norm.affine == affine else norm.model_copy(update={"affine": affine})

    @property
    def head_activation(self) -> Activation:
        return self.ffn.head_activation if self.head.activation == "same" else self.head.activation

    @property
    def kinds_of_segments(self) -> int:
        """Number of segments of a row that it distinguishes; 256 if any number can be compared."""
        return 256 if self.attention.compares_segments else self.segments

    @property
    def room(self) -> int | None:
        """Number of positions, those of a mask decoder if it has fewer."""
        rooms = (self.positions.room, self.head.decoder or None)
        return min((room for room in rooms if room is not None), default=None)

    @property
    def depth(self) -> int:
        return len(self.layers)

    @property
    def owners(self) -> Mapping[str, tuple[int, ...]]:
        return {"attention": self.attention_owner, "ffn": self.ffn_owner}

    @once
    def layer(self, number: int) -> EncoderLayer:
        """A layer, from 0."""
        widths = self.layers[number]
        return EncoderLayer(
            attention=self.attention.at(number),
            widths=op.Widths(self.hidden, widths.heads, widths.head_dim, widths.ffn),
            attention_norm=None if not number and self.norm.skips_first else self.norm.of_layers,
            ffn=self.ffn.at(number) if isinstance(self.ffn, Own) else self.ffn,
            norm=self.norm, positions=self.positions,
            rates=self.dropout, adapter=self.adapt,
            residual=self.residual.at(number) if isinstance(self.residual, Own) else self.residual,
        )  # fmt: skip

    def attention_of(self, layer: int) -> Attended | None:
        # Compiled code asks, which must not trace the cache of ``layer``.
        kind, sizes = self.attention.at(layer - 1), self.layers[layer - 1]
        widths = op.Widths(self.hidden, sizes.heads, sizes.head_dim, sizes.ffn)
        by_content = kind.content_alone and not self.positions.biases_scores
        return Attended(widths, by_content) if kind.projects else None

    @property
    def merged(self) -> Self:
        return self.model_copy(update={"adapt": NO_ADAPTER}) if self.adapt.maps else self

    def settings(self) -> dict[str, Any]:
        last = "norm", "residual", "positions", "segments", "head", "dropout", "initializer"
        return {
            "layers": self.depth,
            "hidden": self.hidden,
            "heads": one_or_all(self.layers, "heads"),
            "head_dim": self.layers[0].head_dim,
            "ffn": self.ffn if isinstance(self.ffn, Own) else one_or_all(self.layers, "ffn"),
            "embedding": self.embedding,
            "table": self.table,
            "share": scheme_of(self.attention_owner, self.ffn_owner),
            "attention": self.attention,
            "activation": self.ffn.setting,
            **{name: getattr(self, name) for name in last},
        }

    def operations(self, call: op.Call) -> op.Forward:
        call = call._replace(causal=self.causal)
        complete = self.depth if call.layers is None else call.layers
        depth = complete + call.projects
        calls = ([call.of_all_states()] * (self.depth - 1) + [call])[:depth]
        layers = [self.layer(number) for number in range(depth)]
        computed = list(zip(layers, calls, strict=True))
        last, reach = self.layer(self.depth - 1), self.attention.at(self.depth - 1).reach
        blocks = reach is not None and in_blocks(call.keys, reach)
        decoding = call._replace(queries=call.tokens if blocks else call.decoded)
        decoded = 2 * [(last, decoding)] if call.decoded else []
        kinds = dict.fromkeys((*computed, *decoded))
        parts = {key: key[0].operations(key[1]) for key in kinds}
        shared = {(layer.attention, c): layer.attention.shared_operations(c) for layer, c in kinds}
        return op.Forward(
            embeddings=(
                *_embed(self, call.of_all_states()),
                *self.attention.common_operations(self.layer(0).widths),
                *(operation for operations in shared.values() for operation in operations),
            ),
            layers=(
                *(_blocks(self, n, parts[computed[n]], calls[n]) for n in range(complete)),
                *(
                    _blocks(self, n, {"attention": layers[n].projections(calls[n])}, calls[n])
                    for n in range(complete, depth)
                ),
                *(_blocks(self, self.depth - 1, parts[key], key[1]) for key in decoded),
            ),
            last=_last(self, call),
        )

    def unread_layer_weights(self, outputs: Wanted) -> Iterator[Weight]:
        """Weights of owners that no computed layer uses, and the norm after the last layer."""
        complete = outputs.whole_layers(self.depth)
        if complete == self.depth or outputs.decoded:
            return
        read = [f"{part}.{n}." for part, owners in self.owners.items() for n in owners[:complete]]
        if outputs.projects_next(self.depth):
            normed = self.norm.residual_free and self.layer(complete).attention_norm
            parts = ("query", "key", "value", "query_norm", "key_norm", *["norm"] * bool(normed))
            read += [f"attention.{self.attention_owner[complete]}.{part}." for part in parts]
        for layer, part in product(range(self.depth), OUTPUTS):
            for weight in self.part_weights(part, layer):
                if not weight.name.startswith(tuple(read)):
                    yield weight
        yield from (weight for weight in outer_weights(self) if weight.name.startswith("norm."))
        yield from self.common_weights() if complete == 0 else ()
        sums = complete + outputs.projects_next(self.depth)
        yield from (w for w in self.residual.weights(self.depth) if not is_below(w.name, sums))

    @once
    def part_weights(self, part: SharedPart, layer: int) -> tuple[Weight, ...]:
        """Weights of attention or the feed-forward part, named by the layer that owns them."""
        weights = self.layer(layer).weights(part, f"{part}.{layer}", self.initializer)
        return self.adapt.mark_frozen(weights)

    @once
    def part_sizes(self, part: SharedPart, layer: int) -> tuple[int, int]:
        """Numbers in the weights of a part, and in those that are frozen."""
        weights = self.part_weights(part, layer)
        return sum(w.numel for w in weights), sum(w.numel for w in weights if w.frozen)

    def embedding_weights(self) -> tuple[Weight, ...]:
        """Tables of vectors whose sum the first layer reads, their norm, and a projection."""
        init, many, size = self.initializer, len(self.languages), self.embedding
        width: Dim = ("embedding", size)
        weights = [*self.table.weights(self.vocab_size, size, self.hidden, init)]
        weights += self.positions.weights("embeddings.position", width, init)
        if self.segments:
            weights.append(table_weight("segment", ("segments", self.segments), width, init))
        if many:
            weights.append(table_weight("language", ("languages", many), width, init))
        if self.two_streams:
            vector, name = default_init(init), "embeddings.unseen"
            weights.append(Weight(name, (size,), width[:1], vector, "embeddings", "table"))
        if self.norm.embeddings:
            weights += self.norm.of_layers.weights("embeddings.norm", *width, part="embeddings")
        if size != self.hidden:  # ALBERT 3.1
            hidden: Dim = ("hidden", self.hidden)
            weights += affine("embeddings.project", hidden, width, default_init(init), "embeddings")
        return tuple(weights)

    def common_weights(self) -> tuple[Weight, ...]:
        """Weights that the attention of all layers uses, independent of sharing."""
        widths, init = self.layer(0).widths, self.initializer
        return (
            *self.attention.common_weights(widths, init),
            *self.positions.common_weights(widths.heads, init),
        )

    def weights(self) -> tuple[Weight, ...]:
        layers: list[Weight] = []
        for layer, part in product(range(self.depth), OUTPUTS):
            if self.owners[part][layer] == layer:
                layers += self.part_weights(part, layer)
        layers = [*scale_by_depth(layers, self.initializer, self.depth)]
        outside = (
            self.embedding_weights() + self.common_weights() + self.residual.weights(self.depth)
        )
        return self.adapt.mark_frozen((*outside, *layers, *outer_weights(self)))


def decoder_positions(encoder: Encoder) -> LearnedPositions | None:
    """Positions that the queries of the mask decoder have, whose layer is the last one."""
    return LearnedPositions(rows=encoder.head.decoder) if encoder.head.decoder else None


def outer_weights(encoder: Encoder) -> tuple[Weight, ...]:
    """Weights after the layers: of a norm on the residual path, the mask decoder, the pooler."""
    init, hidden = encoder.initializer, encoder.hidden
    width: Dim = ("hidden", hidden)
    end, decoder, steps = encoder.norm.of_end, decoder_positions(encoder), encoder.pooled.steps
    return (
        *(end.weights("norm", *width) if end else ()),
        *(decoder.weights(DECODER, width, init) if decoder else ()),
        *(steps.weights(hidden, encoder.head, encoder.head_norm, init) if steps else ()),
    )


def _embed(encoder: Encoder, call: op.Call) -> op.Operations:
    states, width, hidden = call.states, encoder.embedding, encoder.hidden
    tables = (encoder.segments, len(encoder.languages))
    tokens, norm = call.rows * call.tokens, encoder.norm
    return (
        *encoder.table.operations(encoder.vocab_size, width, hidden, tokens),
        *encoder.positions.in_embeddings(width, call),
        *(op.Lookup(states, width, rows) for rows in tables if rows),
        *((norm.of_layers.operation(states, width),) if norm.embeddings else ()),
        *((op.Dropout(states, width),) if encoder.dropout.hidden else ()),
        *((op.Product(states, width, hidden),) if width != hidden else ()),
    )


def _blocks(
    encoder: Encoder, layer: int, parts: Mapping[SharedPart, op.Operations], call: op.Call
) -> tuple[op.Block, ...]:
    widths, sums_of = encoder.layer(layer).widths, encoder.residual.operations
    return tuple(
        op.Block(part, f"{part}.{owner}", numel, operations, frozen)
        for part, computed in parts.items()
        for owner in [encoder.owners[part][layer]]
        for sums in [sums_of(layer, part, encoder.depth, call, widths)]
        for operations in [(*sums, *computed) if sums else computed]
        for numel, frozen in [encoder.part_sizes(part, layer)]
    )


def _last(encoder: Encoder, call: op.Call) -> op.Operations:
    """Norm and dropout of the last states, and the pooler up to a mean at its end."""
    hidden, pooled = encoder.hidden, call.rows * call.pooled if encoder.pooler else 0
    late: op.Operations = ()
    steps, dropped = encoder.pooled.steps, encoder.dropout.last > 0
    if steps and steps.mean == "after":
        pooled *= call.tokens
        late = steps.operations(pooled, hidden, encoder.head_activation)
    whole = call.layers in (None, encoder.depth)
    norm = encoder.norm.of_end
    decoded = call.rows * call.decoded
    widths = encoder.layer(0).widths
    sums = encoder.residual.operations(encoder.depth, "attention", encoder.depth, call, widths)
    return (
        *(sums if whole else ()),
        *((norm.operation(call.states, hidden),) if norm and whole else ()),
        *((op.Dropout(call.states, hidden),) if dropped else ()),
        *((op.Lookup(decoded, hidden, encoder.head.decoder),) if decoded else ()),
        *((norm.operation(decoded, hidden),) if decoded and norm else ()),
        *((op.Dropout(decoded, hidden),) if decoded and dropped else ()),
        # The head that reads the pooler saves its input.
        *((op.Product(pooled, hidden, hidden, keeps_rows=False), *late) if pooled else ()),
    )
