"""Which Hugging Face layout can say what a program is, or which setting stands in the way."""

from collections.abc import Iterator
from typing import assert_never

from bertc.interop.names import TITLES, LayoutName, groups
from bertc.interop.obstacle import Obstacle, first_of
from bertc.interop.xlnet import without_distances, xlnet_obstacle
from bertc.ir.learning.task import Task
from bertc.ir.network.attention import FullAttention, RelativeAttention
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.ffn import Activation, Mlp
from bertc.ir.network.sharing import ShareGroups
from bertc.ir.program.resolved import Resolved

ACTIVATIONS: dict[Activation, str] = {
    "gelu": "gelu",
    "gelu-tanh": "gelu_pytorch_tanh",
    "relu": "relu",
    "silu": "silu",
    "tanh": "tanh",
}
"""The names of transformers' activations.ACT2FN that compute the same, to the last bit."""


def layout(resolved: Resolved, pad: int, prefer: LayoutName | None = None) -> LayoutName | Obstacle:
    """The layout of a program whose vocabulary pads with id ``pad``.

    Distances are XLNet's. What finds replaced tokens is ELECTRA's, and a network that came from
    that layout, is tuned as one of them or trains with such a one; no token types are XLM's;
    positions with an offset are RoBERTa's; shared layers or factorised embeddings are ALBERT's.
    """
    encoder = resolved.encoder
    tuned = any(isinstance(term.objective, Task) for term in resolved.terms())
    if encoder.causal:
        return Obstacle("objective=clm", "every token of the layouts sees both sides")
    if encoder.table.kind != "whole" or encoder.table.scaled:
        why = "the layouts have one table, read as it is"
        return Obstacle(f"table={encoder.table.kind}", why, "table=whole")
    match encoder.attention:
        case RelativeAttention():
            return xlnet_obstacle(encoder, encoder.attention, tuned) or "xlnet"
        case FullAttention():
            pass
        case _:
            assert_never(encoder.attention)
    if encoder.two_streams:
        return without_distances(encoder)
    predicts = any(term.objective.kind in ("mlm", "tlm") for term in resolved.terms())
    shared = any(owner != n for n, owner in enumerate(encoder.attention_owner)) or any(
        owner != n for n, owner in enumerate(encoder.ffn_owner)
    )
    finds = any(term.objective.kind == "rtd" for term in resolved.terms())
    name: LayoutName = "bert"
    own: Obstacle | None = None
    if not encoder.segments:
        name, own = "xlm", _xlm(encoder, shared, predicts)
    elif finds or prefer == "electra" or (tuned and resolved.run.layout == "electra"):
        name, own = "electra", _electra(encoder, shared, predicts)
    elif shared or encoder.factorised:
        name, own = "albert", _sharing(encoder) or _albert(encoder)
    elif encoder.positions.offset:
        name, own = "roberta", _roberta(encoder, pad, predicts)
    longest = max(stage.seq for stage in resolved.stages)
    general = [*_everywhere(encoder, longest), *_with_segments(encoder, predicts)]
    return first_of([*general, *([own] if own else [])]) or name


def albert_group(layer: int, layers: int, num_groups: int) -> int:
    """The group of a layer as AlbertTransformer computes it, in floating point.

    For some pairs, (18, 14) the first, this differs from ``layer * num_groups // layers``.
    """
    return int(layer / (layers / num_groups))


def _everywhere(encoder: Encoder, seq: int) -> Iterator[Obstacle]:
    """What none of the layouts can say, of an encoder for rows of up to ``seq`` tokens."""
    if encoder.positions.kind != "learned":
        why = "all layouts have a table of positions"
        yield Obstacle(f"positions={encoder.positions.kind}", why, f"positions={seq}")
    match encoder.ffn:
        case Mlp():
            pass
        case _:
            assert_never(encoder.ffn)
    if encoder.norm.kind != "post":
        yield Obstacle(f"norm={encoder.norm.kind}", "all layouts norm after each part", "norm=post")
    elif not encoder.norm.embeddings:
        yield Obstacle(
            "norm=post(embeddings=false)", "all layouts norm the embeddings", "norm=post"
        )
    rates = encoder.dropout
    plain = f"dropout=dropout({rates.hidden:g}, {rates.attention:g})"
    if rates.ffn:
        why = "all layouts have none within the part"
        yield Obstacle(f"dropout.ffn={rates.ffn}", why, plain)
    if rates.last:
        yield Obstacle(f"dropout.last={rates.last}", "all layouts have none at the end", plain)
    yield from _unequal(encoder)


def _unequal(encoder: Encoder) -> Iterator[Obstacle]:
    """Widths of layers that differ, or of heads that do not fill the hidden width."""
    first, hidden = encoder.layers[0], encoder.hidden
    for setting, widths in (
        ("heads", [layer.heads for layer in encoder.layers]),
        ("ffn", [layer.ffn for layer in encoder.layers]),
    ):
        if len(set(widths)) > 1:
            equal = f"{setting}={widths[0]}"
            yield Obstacle(f"{setting}={_list(widths)}", "all layouts have equal layers", equal)
    if first.heads * first.head_dim != hidden:
        yield Obstacle(
            f"head_dim={first.head_dim}",
            f"in all layouts it is hidden / heads = {hidden} / {first.heads}",
            "" if hidden % first.heads else f"head_dim={hidden // first.heads}",
        )


def _with_segments(encoder: Encoder, predicts: bool) -> Iterator[Obstacle]:
    """What the layouts with token types, all but XLM's, cannot say."""
    why = "of the layouts only XLM's has it, and that has no token types"
    if not encoder.segments:
        return
    if encoder.languages:
        yield Obstacle("language_embeddings=true", why, "language_embeddings=false")
    if predicts and encoder.head.kind != "transform":
        yield Obstacle(f"head={encoder.head.kind}", why, "head=transform")


def _xlm(encoder: Encoder, shared: bool, predicts: bool) -> Obstacle | None:
    """XLM's: no token types, no transform before the scores, all widths from one."""
    first, without = encoder.layers[0], "the only layout without token types, XLM's,"
    equal = f"embedding={encoder.hidden}"
    for differs, why, mend in (
        (shared, "has no room for share", "share=none"),
        (encoder.factorised, f"has no room for embedding={encoder.embedding}", equal),
        (encoder.positions.offset, "counts positions from 0", _from_0(encoder)),
        (
            predicts and not (encoder.head.kind == "linear" and encoder.head.bias),
            "has head=linear, with a bias",
            "head=linear",
        ),
    ):
        if differs:
            # Where languages have vectors no other layout will do.
            instead = mend if encoder.languages else "segments=1"
            return Obstacle("segments=0", f"{without} {why}", instead)
    if first.ffn != 4 * encoder.hidden:
        return Obstacle(
            f"ffn={first.ffn}", f"{without} has 4 x hidden", f"ffn={4 * encoder.hidden}"
        )
    if encoder.ffn.activation not in ("gelu", "relu"):
        why = f"{without} has gelu or relu"
        return Obstacle(f"activation={encoder.ffn.activation}", why, "activation=gelu")
    if len(encoder.languages) == 1:
        why = f"{without} has none for a single language"
        return Obstacle("language_embeddings=true", why, "language_embeddings=false")
    return None


def _sharing(encoder: Encoder) -> Obstacle | None:
    """ALBERT shares whole layers, in runs that its own formula gives."""
    attention, ffn, layers = encoder.attention_owner, encoder.ffn_owner, len(encoder.layers)
    if attention != ffn:
        own, first = tuple(range(layers)), (0,) * layers
        scheme = {(first, own): "attention", (own, first): "ffn"}.get(
            (attention, ffn), f"map({_list(attention)}, {_list(ffn)})"
        )
        return Obstacle(f"share={scheme}", "the ALBERT layout shares whole layers", "share=none")
    numbers = groups(encoder)
    wanted = [albert_group(layer, layers, len(numbers)) for layer in range(layers)]
    if [numbers[owner] for owner in attention] != wanted:
        scheme = f"map({_list(attention)})"
        even = ShareGroups(groups=len(numbers))
        if attention == tuple(even.owner("attention", layer, layers) for layer in range(layers)):
            scheme = f"groups({len(numbers)})"
        return Obstacle(
            f"share={scheme}",
            f"the ALBERT layout would give layers the groups {_list(wanted)}",
            "share=none",
        )
    return None


def _albert(encoder: Encoder) -> Obstacle | None:
    if not encoder.factorised:
        return Obstacle(
            f"embedding={encoder.embedding}",
            "it equals hidden, where the ALBERT layout still has a map between the two",
            "share=none",
        )
    return _offset(encoder, "albert")


def _electra(encoder: Encoder, shared: bool, predicts: bool) -> Obstacle | None:
    if shared:
        why = "every layer of the ELECTRA layout has its own weights"
        return Obstacle("share", why, "share=none")
    if obstacle := _offset(encoder, "electra"):
        return obstacle
    return _head_activation(encoder, "electra") if predicts else None


def _offset(encoder: Encoder, name: LayoutName) -> Obstacle | None:
    if not encoder.positions.offset:
        return None
    return Obstacle(
        f"positions=learned({encoder.positions.rows}, offset={encoder.positions.offset})",
        f"the {TITLES[name]} layout counts positions from 0",
        _from_0(encoder),
    )


def _from_0(encoder: Encoder) -> str:
    """As many positions, counted from 0."""
    return f"positions={encoder.positions.rows - encoder.positions.offset}"


def _head_activation(encoder: Encoder, name: LayoutName) -> Obstacle | None:
    if encoder.ffn.activation != "gelu":
        return Obstacle(
            f"activation={encoder.ffn.activation}",
            f"the masked-LM head of the {TITLES[name]} layout is always gelu",
            "activation=gelu",
        )
    return None


def _roberta(encoder: Encoder, pad: int, predicts: bool) -> Obstacle | None:
    if encoder.positions.offset != pad + 1:
        rows = encoder.positions.rows - encoder.positions.offset + pad + 1
        return Obstacle(
            f"positions=learned({encoder.positions.rows}, offset={encoder.positions.offset})",
            f"the RoBERTa layout counts positions from the padding id + 1 = {pad + 1}",
            f"positions=learned({rows}, offset={pad + 1})",
        )
    return _head_activation(encoder, "roberta") if predicts else None


def _list(numbers: tuple[int, ...] | list[int]) -> str:
    return "[" + ", ".join(map(str, numbers)) + "]"
