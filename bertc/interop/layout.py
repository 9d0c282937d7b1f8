"""Which Hugging Face layout can say what a program is, or which setting stands in the way."""

from typing import assert_never

from bertc.interop.names import TITLES, LayoutName, groups
from bertc.interop.obstacle import Obstacle
from bertc.interop.xlnet import xlnet_obstacle
from bertc.ir.attention import FullAttention, RelativeAttention
from bertc.ir.encoder import Encoder
from bertc.ir.ffn import Activation, Mlp
from bertc.ir.resolved import Resolved
from bertc.ir.sharing import ShareGroups
from bertc.ir.task import Task

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
        return Obstacle(f"table={encoder.table.kind}", "the layouts have one table, read as it is")
    match encoder.attention:
        case RelativeAttention():
            return xlnet_obstacle(encoder, encoder.attention, tuned) or "xlnet"
        case FullAttention():
            pass
        case _:
            assert_never(encoder.attention)
    if obstacle := _everywhere(encoder):
        return obstacle
    predicts = any(term.objective.kind in ("mlm", "tlm") for term in resolved.terms())
    shared = any(owner != n for n, owner in enumerate(encoder.attention_owner)) or any(
        owner != n for n, owner in enumerate(encoder.ffn_owner)
    )
    if not encoder.segments:
        return _xlm(encoder, shared, predicts) or "xlm"
    if obstacle := _with_segments(encoder, predicts):
        return obstacle
    finds = any(term.objective.kind == "rtd" for term in resolved.terms())
    if finds or prefer == "electra" or (tuned and resolved.run.recipe == "electra"):
        return _electra(encoder, shared, predicts) or "electra"
    if shared or encoder.factorised:
        return _sharing(encoder) or _albert(encoder) or "albert"
    if encoder.positions.offset:
        return _roberta(encoder, pad, predicts) or "roberta"
    return "bert"


def albert_group(layer: int, layers: int, num_groups: int) -> int:
    """The group of a layer as AlbertTransformer computes it, in floating point.

    For some pairs, (18, 14) the first, this differs from ``layer * num_groups // layers``.
    """
    return int(layer / (layers / num_groups))


def _everywhere(encoder: Encoder) -> Obstacle | None:
    """What none of the layouts can say."""
    if encoder.two_streams:
        return Obstacle("objective=plm", "of the layouts only XLNet's has two streams")
    if encoder.positions.kind != "learned":
        return Obstacle(
            f"positions={encoder.positions.kind}", "all layouts have a table of positions"
        )
    match encoder.ffn:
        case Mlp():
            pass
        case _:
            assert_never(encoder.ffn)
    if encoder.norm.kind != "post":
        return Obstacle(f"norm={encoder.norm.kind}", "all layouts norm after each part")
    if not encoder.norm.embeddings:
        return Obstacle("norm=post(embeddings=false)", "all layouts norm the embeddings")
    if encoder.dropout.ffn:
        return Obstacle(
            f"dropout.ffn={encoder.dropout.ffn}", "all layouts have none within the part"
        )
    if encoder.dropout.last:
        return Obstacle(f"dropout.last={encoder.dropout.last}", "all layouts have none at the end")
    for setting, widths in (
        ("heads", [layer.heads for layer in encoder.layers]),
        ("ffn", [layer.ffn for layer in encoder.layers]),
    ):
        if len(set(widths)) > 1:
            return Obstacle(f"{setting}={_list(widths)}", "all layouts have equal layers")
    first = encoder.layers[0]
    if first.heads * first.head_dim != encoder.hidden:
        return Obstacle(
            f"head_dim={first.head_dim}",
            f"in all layouts it is hidden / heads = {encoder.hidden} / {first.heads}",
        )
    return None


def _with_segments(encoder: Encoder, predicts: bool) -> Obstacle | None:
    """What the layouts with token types, all but XLM's, cannot say."""
    why = "of the layouts only XLM's has it, and that has no token types"
    if encoder.languages:
        return Obstacle("language_embeddings=true", why)
    if predicts and encoder.head.kind != "transform":
        return Obstacle(f"head={encoder.head.kind}", why)
    return None


def _xlm(encoder: Encoder, shared: bool, predicts: bool) -> Obstacle | None:
    """XLM's: no token types, no transform before the scores, all widths from one."""
    first, without = encoder.layers[0], "the only layout without token types, XLM's,"
    if shared or encoder.factorised:
        setting = "share" if shared else f"embedding={encoder.embedding}"
        return Obstacle("segments=0", f"{without} has no room for {setting}")
    if encoder.positions.offset:
        return Obstacle("segments=0", f"{without} counts positions from 0")
    if predicts and not (encoder.head.kind == "linear" and encoder.head.bias):
        return Obstacle("segments=0", f"{without} has head=linear, with a bias")
    if first.ffn != 4 * encoder.hidden:
        return Obstacle(f"ffn={first.ffn}", f"{without} has 4 x hidden")
    if encoder.ffn.activation not in ("gelu", "relu"):
        return Obstacle(f"activation={encoder.ffn.activation}", f"{without} has gelu or relu")
    if len(encoder.languages) == 1:
        return Obstacle("language_embeddings=true", f"{without} has none for a single language")
    return None


def _sharing(encoder: Encoder) -> Obstacle | None:
    """ALBERT shares whole layers, in runs that its own formula gives."""
    attention, ffn, layers = encoder.attention_owner, encoder.ffn_owner, len(encoder.layers)
    if attention != ffn:
        own, first = tuple(range(layers)), (0,) * layers
        scheme = {(first, own): "attention", (own, first): "ffn"}.get(
            (attention, ffn), f"map({_list(attention)}, {_list(ffn)})"
        )
        return Obstacle(f"share={scheme}", "the ALBERT layout shares whole layers")
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
        )
    return None


def _albert(encoder: Encoder) -> Obstacle | None:
    if not encoder.factorised:
        return Obstacle(
            f"embedding={encoder.embedding}",
            "it equals hidden, where the ALBERT layout still has a map between the two",
        )
    if encoder.positions.offset:
        return Obstacle(
            f"positions=learned({encoder.positions.rows}, offset={encoder.positions.offset})",
            "the ALBERT layout counts positions from 0",
        )
    return None


def _electra(encoder: Encoder, shared: bool, predicts: bool) -> Obstacle | None:
    if shared:
        return Obstacle("share", "every layer of the ELECTRA layout has its own weights")
    if encoder.positions.offset:
        return Obstacle(
            f"positions=learned({encoder.positions.rows}, offset={encoder.positions.offset})",
            "the ELECTRA layout counts positions from 0",
        )
    return _head_activation(encoder, "electra") if predicts else None


def _head_activation(encoder: Encoder, name: LayoutName) -> Obstacle | None:
    if encoder.ffn.activation != "gelu":
        return Obstacle(
            f"activation={encoder.ffn.activation}",
            f"the masked-LM head of the {TITLES[name]} layout is always gelu",
        )
    return None


def _roberta(encoder: Encoder, pad: int, predicts: bool) -> Obstacle | None:
    if encoder.positions.offset != pad + 1:
        return Obstacle(
            f"positions=learned({encoder.positions.rows}, offset={encoder.positions.offset})",
            f"the RoBERTa layout counts positions from the padding id + 1 = {pad + 1}",
        )
    return _head_activation(encoder, "roberta") if predicts else None


def _list(numbers: tuple[int, ...] | list[int]) -> str:
    return "[" + ", ".join(map(str, numbers)) + "]"
