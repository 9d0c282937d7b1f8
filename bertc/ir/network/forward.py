"""Operations of an encoder's forward pass, assembled from those of its parts."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from bertc.ir import operation as op
from bertc.ir.base import Weight
from bertc.ir.blocks import in_blocks
from bertc.ir.network.attention_node import AttentionNode
from bertc.ir.network.wanted import Wanted

if TYPE_CHECKING:  # an encoder imports this module
    from bertc.ir.network.encoder import Encoder, LayerWidths


def forward(encoder: "Encoder", call: op.Call) -> op.Forward:
    """One forward pass of the layers of ``call``; the last one computes only its queries."""
    call = replace(call, causal=encoder.causal)
    whole_layers = encoder.depth if call.layers is None else call.layers
    depth = whole_layers + call.projects
    calls = ([call.of_all_states()] * (encoder.depth - 1) + [call])[:depth]
    kinds = [encoder.attention.at(layer) for layer in range(depth)]
    normed = [encoder.attention_norm(layer) is not None for layer in range(depth)]
    computed = list(zip(kinds, encoder.layers[:depth], calls, normed, strict=True))
    decoded = _decoded(encoder, call) if call.decoded else []
    parts = {
        arguments: _layer(encoder, *arguments) for arguments in dict.fromkeys((*computed, *decoded))
    }
    projected = (_projected(encoder, layer, calls[layer]) for layer in range(whole_layers, depth))
    shared = {(kind, of): kind.shared_operations(of) for kind, _, of, _ in (*computed, *decoded)}
    return op.Forward(
        embeddings=(
            *_embedding(encoder, call.of_all_states()),
            *encoder.attention.common_operations(encoder.widths(0)),
            *(operation for operations in shared.values() for operation in operations),
        ),
        layers=(
            *(_blocks(encoder, layer, *parts[computed[layer]]) for layer in range(whole_layers)),
            *((block,) for block in projected),
            *(_blocks(encoder, encoder.depth - 1, *parts[arguments]) for arguments in decoded),
        ),
        last=_last(encoder, call),
    )


Computed = tuple[AttentionNode, "LayerWidths", op.Call, bool]
"""Attention, widths and call of a layer, and True if a norm belongs to its attention."""


def _decoded(encoder: "Encoder", call: op.Call) -> list[Computed]:
    """The last layer, twice, with queries of the decoded states."""
    last = encoder.depth - 1
    kind, normed = encoder.attention.at(last), encoder.attention_norm(last) is not None
    blocks = kind.reach is not None and in_blocks(call.keys, kind.reach)
    decoding = replace(call, queries=call.tokens if blocks else call.decoded)
    return [(kind, encoder.layers[last], decoding, normed)] * 2


def uncomputed_weights(encoder: "Encoder", wanted: Wanted) -> Iterator[Weight]:
    """Weights after the embeddings that nothing wanted depends on, as if there were no pooler."""
    whole_layers = wanted.whole_layers(encoder.depth)
    if whole_layers == encoder.depth or wanted.decoded:
        return
    read = [f"attention.{owner}." for owner in encoder.attention_owner[:whole_layers]]
    read += [f"ffn.{owner}." for owner in encoder.ffn_owner[:whole_layers]]
    if wanted.projects_next(encoder.depth):
        normed = encoder.norm.residual_free and encoder.attention_norm(whole_layers) is not None
        parts = ("query", "key", "value", *(["norm"] if normed else []))
        read += [f"attention.{encoder.attention_owner[whole_layers]}.{part}." for part in parts]
    for layer in range(encoder.depth):
        for weight in (*encoder.attention_weights(layer), *encoder.ffn_weights(layer)):
            if not weight.name.startswith(tuple(read)):
                yield weight
    yield from encoder.final_weights()
    yield from encoder.common_weights() if whole_layers == 0 else ()


def _embedding(encoder: "Encoder", call: op.Call) -> op.Operations:
    """Table lookups, norm, dropout, and the projection to the hidden width."""
    states, width, hidden = call.states, encoder.embedding, encoder.hidden
    tables = (encoder.positions.rows, encoder.segments, len(encoder.languages))
    return (
        *encoder.table.operations(encoder.vocab_size, width, hidden, call.rows * call.tokens),
        *(op.Lookup(states, width, rows) for rows in tables if rows),
        *((op.Norm(states, width),) if encoder.norms_embeddings else ()),
        *((op.Dropout(states, width),) if encoder.dropout.hidden else ()),
        *((op.Product(states, width, hidden),) if encoder.factorised else ()),
    )


def _layer(
    encoder: "Encoder", kind: AttentionNode, widths: "LayerWidths", call: op.Call, normed: bool
) -> tuple[op.Operations, op.Operations]:
    """Attention and the feed-forward part, each with its norms and residual branch.

    ``normed``: a norm belongs to the attention.
    """
    hidden, rates = encoder.hidden, encoder.dropout
    all_widths = op.Widths(hidden, widths.heads, widths.head_dim, widths.ffn)
    attention = kind.operations(all_widths, call, rates.attention > 0)
    attention = encoder.positions.in_layer(attention, all_widths, call)
    ffn = encoder.ffn.operations(all_widths, call, rates.ffn > 0)
    if not encoder.norm.residual_free:
        norm = op.Norm(call.states, hidden, residual=True, dropout=rates.hidden > 0)
        return (*attention, norm), (*ffn, norm)
    # With queries that are other states, or a subset, keys are normalised separately.
    affine = encoder.norm.of_layers.affine
    keys = op.Norm(call.context, hidden, keeps_input=call.queries < call.keys, affine=affine)
    before = op.Norm(call.states, hidden, affine=affine)
    after = (
        *((op.Dropout(call.states, hidden),) if rates.hidden else ()),
        *((before,) if encoder.output_norm else ()),
        op.Pointwise("add", call.states * hidden),
    )
    read = (*((keys,) if call.selects else ()), before) if normed else ()
    return (*read, *attention, *after), (before, *ffn, *after)


def _blocks(
    encoder: "Encoder", layer: int, attention: op.Operations, ffn: op.Operations
) -> tuple[op.Block, op.Block]:
    mixing, ffn_weights = encoder.attention_weights(layer), encoder.ffn_weights(layer)
    return (
        _block("attention", encoder.attention_owner[layer], mixing, attention),
        _block("ffn", encoder.ffn_owner[layer], ffn_weights, ffn),
    )


def _projected(encoder: "Encoder", layer: int, call: op.Call) -> op.Block:
    """Queries, keys and values of a layer."""
    widths = encoder.widths(layer)
    operations = encoder.attention.at(layer).projections(widths, call)
    operations = encoder.positions.in_layer(operations, widths, call)
    normed = encoder.norm.residual_free and encoder.attention_norm(layer) is not None
    norm = (op.Norm(call.states, encoder.hidden),) if normed else ()
    weights = encoder.attention_weights(layer)
    return _block("attention", encoder.attention_owner[layer], weights, (*norm, *operations))


def _block(
    part: Literal["attention", "ffn"],
    owner: int,
    weights: Iterable[Weight],
    operations: op.Operations,
) -> op.Block:
    return op.Block(part, f"{part}.{owner}", sum(weight.numel for weight in weights), operations)


def _last(encoder: "Encoder", call: op.Call) -> op.Operations:
    """Norm and dropout of the last states, and the pooler up to a mean at its end."""
    hidden, pooled = encoder.hidden, call.rows * call.pooled if encoder.pooler else 0
    late: op.Operations = ()
    if encoder.pooling and encoder.pooling.mean == "after":
        pooled *= call.tokens
        late = encoder.pooling.operations(pooled, hidden, encoder.head_activation)
    normed = encoder.norm.residual_free and call.layers in (None, encoder.depth)
    decoded = call.rows * call.decoded
    return (
        *((op.Norm(call.states, hidden),) if normed else ()),
        *((op.Dropout(call.states, hidden),) if encoder.dropout.last else ()),
        *((op.Lookup(decoded, hidden, encoder.head.decoder),) if decoded else ()),
        *((op.Norm(decoded, hidden),) if decoded and encoder.norm.residual_free else ()),
        *((op.Dropout(decoded, hidden),) if decoded and encoder.dropout.last else ()),
        # The head that reads the pooler saves its input.
        *((op.Product(pooled, hidden, hidden, keeps_rows=False), *late) if pooled else ()),
    )
