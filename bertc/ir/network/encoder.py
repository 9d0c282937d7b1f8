"""A transformer encoder with every dimension resolved, and its weight table."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from bertc.ir import operation as op
from bertc.ir.base import Axis, Node, Probability, Weight, Width, affine, unstated
from bertc.ir.network.attention import Attention
from bertc.ir.network.body_node import BodyNode
from bertc.ir.network.encoder_settings import settings_of
from bertc.ir.network.ffn import Activation, Ffn
from bertc.ir.network.forward import forward, uncomputed_weights
from bertc.ir.network.norm import Norm, NormFunction
from bertc.ir.network.positions import LearnedPositions, Positions
from bertc.ir.network.sharing import counted_weights, scaled_by_depth, unshared
from bertc.ir.network.table import WholeTable, table_weight
from bertc.ir.network.wanted import Wanted
from bertc.ir.once import once
from bertc.ir.operation import Widths

DECODER = "decoder_positions"
"""The name of the table that the queries of the mask decoder add."""


class Dropout(Node):
    """Dropout rates in training; a bare number sets both ``hidden`` and ``attention``."""

    hidden: Probability = (
        0.1  # BERT config hidden_dropout_prob: embeddings and both residual branches
    )
    attention: Probability = 0.1  # BERT config attention_probs_dropout_prob
    ffn: Probability = 0.0  # after the activation (Transformer-XL, XLNet)
    last: Probability = 0.0  # output of the last layer (Transformer-XL, XLNet)
    positional = ("hidden", "attention", "ffn", "last")
    bare_number = ("hidden", "attention")


class LayerWidths(Node):
    """The widths of one layer; layers may differ."""

    heads: Annotated[int, Field(ge=1, le=10_000)]
    head_dim: Width
    ffn: Width


class Encoder(BodyNode):
    """Token ids (batch, seq) to hidden states (batch, seq, hidden).

    ``languages`` have embeddings in a table of their own (XLM). ``attention_owner[l]`` and
    ``ffn_owner[l]`` name the layer whose weights layer l uses. ``causal``: a token attends to
    itself and earlier ones. ``two_streams``: there is an embedding for the query stream (XLNet
    2.3).
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

    body_kind = "transformer"
    packs = compiles = attends = True
    unshaped = ("activation", "norm", "positions", "attention", "heads")

    @model_validator(mode="after")
    def _owners_fit(self) -> "Encoder":
        for owners, part in ((self.attention_owner, "attention"), (self.ffn_owner, "ffn")):
            if len(owners) != len(self.layers):
                raise ValueError(f"{part}: {len(owners)} owners for {len(self.layers)} layers")
        return self

    @property
    def factorised(self) -> bool:
        """True if the embedding width differs from the hidden width (ALBERT 3.1)."""
        return self.embedding != self.hidden

    @property
    def norms_embeddings(self) -> bool:
        """True if the sum of the embeddings is normalised."""
        return self.norm.embeddings

    @property
    def head_norm(self) -> NormFunction:
        """The norm function within heads."""
        return self.norm.of_heads

    @property
    def head_activation(self) -> Activation:
        """The activation of the feed-forward parts."""
        return self.ffn.head_activation

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
    def first_position(self) -> int:
        """The offset of the positions."""
        return self.positions.offset

    @property
    def clamps(self) -> bool:
        """True for attention with a ``clamp``."""
        return self.attention.distances is not None and self.attention.distances.clamps

    @property
    def varying_steps(self) -> str:
        """Its attention, for kinds that take long rows in pieces."""
        distances = self.attention.distances
        return f"attention={self.attention.kind}" if distances and distances.in_pieces else ""

    def clamped(self, distance: int) -> "Encoder":
        """The same encoder with that ``clamp`` in its attention."""
        attention = self.attention.model_copy(update={"clamp": distance})
        return self.model_copy(update={"attention": attention})

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self.layers)

    @property
    def unshared(self) -> tuple[int, ...]:
        """Number of weights of each layer that no other layer uses."""
        return unshared(self)

    @property
    def owners(self) -> Mapping[str, tuple[int, ...]]:
        """Owners of attention and of the feed-forward part."""
        return {"attention": self.attention_owner, "ffn": self.ffn_owner}

    @property
    def decoder(self) -> LearnedPositions | None:
        """Positions that the queries of the mask decoder have, if there is one."""
        return LearnedPositions(rows=self.head.decoder) if self.head.decoder else None

    @property
    def decodes(self) -> bool:
        """True with a mask decoder."""
        return self.head.decoder > 0

    @property
    def passes_through(self) -> bool:
        """True if no norm stands on the residual path."""
        return self.norm.residual_free

    def settings(self) -> dict[str, Any]:
        """Settings of the encoder, by name."""
        return settings_of(self)

    def operations(self, call: op.Call) -> op.Forward:
        """Operations of one forward pass; the last layer computes only the queries of ``call``."""
        return forward(self, call)

    def counted_weights(self) -> Iterator[tuple[tuple[Weight, ...], int, int]]:
        """Weights of each part, how often stored and used; equal layers are one part."""
        return iter(counted_weights(self))

    def unread_weights(self, pooled: bool, query_stream: bool, wanted: Wanted) -> frozenset[str]:
        """Names of weights without a gradient: of pooler, query stream, uncomputed layers."""
        unread = super().unread_weights(pooled, query_stream, wanted)
        unread |= frozenset() if query_stream else {"embeddings.unseen"}
        return unread if wanted.decoded else unread | {f"{DECODER}.weight"}

    def unread_layer_weights(self, wanted: Wanted) -> Iterator[Weight]:
        """Weights of owners that no computed layer uses, and the norm after the last layer."""
        return uncomputed_weights(self, wanted)

    def embedding_weights(self) -> tuple[Weight, ...]:
        """Tables, their norm, and the projection to the hidden width if the two differ."""
        width: tuple[Axis, int] = ("embedding", self.embedding)
        init, weights = self.initializer, list[Weight]()
        if not isinstance(self.table, WholeTable) and self.table.narrows:
            weights += self.table.weights(self.vocab_size, self.embedding, self.hidden, init)
        else:
            weights.append(table_weight("token", ("vocab", self.vocab_size), width, init))
        weights += self.positions.weights("embeddings.position", width, init)
        if self.segments:
            weights.append(table_weight("segment", ("segments", self.segments), width, init))
        if self.languages:
            many: tuple[Axis, int] = ("languages", len(self.languages))
            weights.append(table_weight("language", many, width, init))
        if self.two_streams:
            vector, axis = unstated(init), width[:1]
            shape = (self.embedding,)
            weights.append(Weight("embeddings.unseen", shape, axis, vector, "embeddings", "table"))
        if self.norms_embeddings:
            weights += self.norm.of_layers.weights("embeddings.norm", *width, part="embeddings")
        if self.factorised:
            hidden: tuple[Axis, int] = ("hidden", self.hidden)
            weights += affine("embeddings.project", hidden, width, unstated(init), "embeddings")
        return tuple(weights)

    def widths(self, layer: int) -> Widths:
        """The widths of one layer, hidden width included."""
        widths = self.layers[layer]
        return Widths(self.hidden, widths.heads, widths.head_dim, widths.ffn)

    def attention_widths(self, layer: int) -> Widths | None:
        """None for a kind of attention without queries, keys and values."""
        return self.widths(layer - 1) if self.attention.at(layer - 1).projects else None

    def scores_content_alone(self, layer: int) -> bool:
        """The answer of the attention of the layer, if positions add nothing."""
        alone = self.attention.at(layer - 1).content_alone
        return alone and not self.positions.biases_scores

    def attention_norm(self, layer: int) -> NormFunction | None:
        """The norm of what attention reads, or of its sum; None for a first layer without one."""
        return None if layer == 0 and self.norm.skips_first else self.norm.of_layers

    @property
    def output_norm(self) -> NormFunction | None:
        """The norm of what a part adds to the residual stream; None if there is none."""
        return self.norm.of_layers if self.norm.norms_outputs else None

    @once
    def attention_weights(self, layer: int) -> tuple[Weight, ...]:
        """Weights of one attention part and its norms, named by the layer that owns them."""
        name, kind = f"attention.{layer}", self.attention.at(layer)
        return (
            *kind.weights(name, self.widths(layer), self.initializer),
            *self._norm_weights(f"{name}.norm", self.attention_norm(layer)),
            *self._norm_weights(f"{name}.output_norm", self.output_norm),
        )

    @once
    def ffn_weights(self, layer: int) -> tuple[Weight, ...]:
        """Weights of one feed-forward part and its norms, named by the layer that owns them."""
        name = f"ffn.{layer}"
        return (
            *self.ffn.weights(name, self.widths(layer), self.initializer),
            *self._norm_weights(f"{name}.norm", self.norm.of_layers),
            *self._norm_weights(f"{name}.output_norm", self.output_norm),
        )

    def common_weights(self) -> tuple[Weight, ...]:
        """Weights that the attention of all layers uses, independent of sharing."""
        widths, init = self.widths(0), self.initializer
        return (
            *self.attention.common_weights(widths, init),
            *self.positions.common_weights(widths.heads, init),
        )

    def pooler_weights(self) -> tuple[Weight, ...]:
        """Weights of the pooler, if the encoder has one."""
        if self.pooling is None:
            return ()
        return self.pooling.weights(self.hidden, self.head, self.head_norm, self.initializer)

    def pooled_operations(self, rows: int) -> op.Operations:
        """Its activations and its norm; before a mean they belong to the forward pass."""
        if self.pooling is None or self.pooling.mean == "after":
            return ()
        return self.pooling.operations(rows, self.hidden, self.head_activation)

    def decoder_weights(self) -> tuple[Weight, ...]:
        """The positions of the mask decoder; its layer is the last one."""
        hidden: tuple[Axis, int] = ("hidden", self.hidden)
        return self.decoder.weights(DECODER, hidden, self.initializer) if self.decoder else ()

    def final_weights(self) -> tuple[Weight, ...]:
        """The norm after the last layer, where no other stands on the residual path."""
        return self._norm_weights("norm", self.norm.of_layers) if self.passes_through else ()

    def _norm_weights(self, name: str, norm: NormFunction | None) -> tuple[Weight, ...]:
        """Weights of a norm over the hidden width, if it has any."""
        return norm.weights(name, "hidden", self.hidden) if norm else ()

    def weights(self) -> tuple[Weight, ...]:
        """Every trainable tensor, shared ones once, in the order of the forward pass."""
        layers: list[Weight] = []
        for layer in range(len(self.layers)):
            if self.attention_owner[layer] == layer:
                layers += self.attention_weights(layer)
            if self.ffn_owner[layer] == layer:
                layers += self.ffn_weights(layer)
        return (
            *self.embedding_weights(),
            *self.common_weights(),
            *scaled_by_depth(layers, self.initializer, self.depth),
            *self.final_weights(),
            *self.decoder_weights(),
            *self.pooler_weights(),
        )
