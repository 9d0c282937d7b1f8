"""Which Hugging Face layout can say what a program is, or which setting stands in the way."""

from dataclasses import dataclass
from typing import assert_never

from bertc.interop.names import TITLES, LayoutName, groups
from bertc.ir.attention import FullAttention
from bertc.ir.encoder import Encoder
from bertc.ir.ffn import Activation, Mlp
from bertc.ir.resolved import Resolved
from bertc.ir.sharing import ShareGroups

ACTIVATIONS: dict[Activation, str] = {
    "gelu": "gelu",
    "gelu-tanh": "gelu_pytorch_tanh",
    "relu": "relu",
    "silu": "silu",
    "tanh": "tanh",
}
"""The names of transformers' activations.ACT2FN that compute the same, to the last bit."""


@dataclass(frozen=True)
class Obstacle:
    """A setting, as one would write it, that no layout can say, and why."""

    setting: str
    why: str

    def __str__(self) -> str:
        return f"{self.setting} stands in the way: {self.why}"


def layout(resolved: Resolved, pad: int, prefer: LayoutName | None = None) -> LayoutName | Obstacle:
    """The layout of a program whose vocabulary pads with id ``pad``.

    What finds replaced tokens is ELECTRA's, and a network that came from that layout or trains with
    such a one; positions with an offset are RoBERTa's; shared layers or factorised embeddings are
    ALBERT's.
    """
    encoder = resolved.encoder
    if obstacle := _everywhere(encoder):
        return obstacle
    shared = any(owner != n for n, owner in enumerate(encoder.attention_owner)) or any(
        owner != n for n, owner in enumerate(encoder.ffn_owner)
    )
    finds = any(term.objective.kind == "rtd" for term in resolved.terms())
    if finds or prefer == "electra":
        return _electra(resolved, shared) or "electra"
    if shared or encoder.factorised:
        return _sharing(encoder) or _albert(encoder) or "albert"
    if encoder.positions.offset:
        return _roberta(resolved, pad) or "roberta"
    return "bert"


def albert_group(layer: int, layers: int, num_groups: int) -> int:
    """The group of a layer as AlbertTransformer computes it, in floating point.

    For some pairs, (18, 14) the first, this differs from ``layer * num_groups // layers``.
    """
    return int(layer / (layers / num_groups))


def _everywhere(encoder: Encoder) -> Obstacle | None:
    """What none of the layouts can say."""
    match encoder.attention:
        case FullAttention():
            pass
        case _:
            assert_never(encoder.attention)
    match encoder.ffn:
        case Mlp():
            pass
        case _:
            assert_never(encoder.ffn)
    if encoder.norm.kind != "post":
        return Obstacle(f"norm={encoder.norm.kind}", "all these layouts norm after each part")
    if not encoder.segments:
        return Obstacle("segments=0", "all these layouts add a token type to every token")
    for setting, widths in (
        ("heads", [layer.heads for layer in encoder.layers]),
        ("ffn", [layer.ffn for layer in encoder.layers]),
    ):
        if len(set(widths)) > 1:
            return Obstacle(f"{setting}={_list(widths)}", "all these layouts have equal layers")
    first = encoder.layers[0]
    if first.heads * first.head_dim != encoder.hidden:
        return Obstacle(
            f"head_dim={first.head_dim}",
            f"in all these layouts it is hidden / heads = {encoder.hidden} / {first.heads}",
        )
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


def _electra(resolved: Resolved, shared: bool) -> Obstacle | None:
    encoder = resolved.encoder
    if shared:
        return Obstacle("share", "every layer of the ELECTRA layout has its own weights")
    if encoder.positions.offset:
        return Obstacle(
            f"positions=learned({encoder.positions.rows}, offset={encoder.positions.offset})",
            "the ELECTRA layout counts positions from 0",
        )
    return _head_activation(resolved, "electra")


def _head_activation(resolved: Resolved, name: LayoutName) -> Obstacle | None:
    predicts = any(term.objective.kind == "mlm" for term in resolved.terms())
    if predicts and resolved.encoder.ffn.activation != "gelu":
        return Obstacle(
            f"activation={resolved.encoder.ffn.activation}",
            f"the masked-LM head of the {TITLES[name]} layout is always gelu",
        )
    return None


def _roberta(resolved: Resolved, pad: int) -> Obstacle | None:
    encoder = resolved.encoder
    if encoder.positions.offset != pad + 1:
        return Obstacle(
            f"positions=learned({encoder.positions.rows}, offset={encoder.positions.offset})",
            f"the RoBERTa layout counts positions from the padding id + 1 = {pad + 1}",
        )
    return _head_activation(resolved, "roberta")


def _list(numbers: tuple[int, ...] | list[int]) -> str:
    return "[" + ", ".join(map(str, numbers)) + "]"
