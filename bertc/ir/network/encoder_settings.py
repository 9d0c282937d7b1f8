"""The settings of a spec that make a transformer, from the transformer."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, get_args

from bertc.ir.network.sharing import OUTPUTS, ShareGroups, ShareMap, Sharing

if TYPE_CHECKING:  # an encoder asks for its settings here
    from bertc.ir.network.encoder import Encoder


def settings_of(encoder: "Encoder") -> dict[str, Any]:
    """Depth, widths and the kinds of parts, by the names of settings."""
    return {
        "layers": len(encoder.layers),
        "hidden": encoder.hidden,
        "heads": _one_or_all(encoder, "heads"),
        "head_dim": encoder.layers[0].head_dim,
        "ffn": _one_or_all(encoder, "ffn"),
        "embedding": encoder.embedding,
        "table": encoder.table,
        "share": _sharing(encoder),
        "attention": encoder.attention,
        "activation": encoder.ffn.setting,
        "norm": encoder.norm,
        "positions": encoder.positions,
        "segments": encoder.segments,
        "head": encoder.head,
        "dropout": encoder.dropout,
        "initializer": encoder.initializer,
    }


def _one_or_all(encoder: "Encoder", width: str) -> int | tuple[int, ...]:
    """One number if all layers agree, else one per layer."""
    widths = tuple(getattr(layer, width) for layer in encoder.layers)
    return widths[0] if len(set(widths)) == 1 else widths


def _sharing(encoder: "Encoder") -> Sharing:
    """The scheme with the encoder's owners: one with a name, or else their map."""
    depth = len(encoder.layers)
    owners = encoder.attention_owner, encoder.ffn_owner
    groups = ShareGroups(groups=len({*owners[0]}))
    for scheme in (*_plain(), groups):
        attention, ffn = (
            tuple(scheme.owner(part, layer, depth) for layer in range(depth)) for part in OUTPUTS
        )
        if owners == (attention, ffn):
            return scheme
    return ShareMap(attention=owners[0], ffn=owners[1])


def _plain() -> Iterator[Sharing]:
    """The schemes without arguments, in the order of their union."""
    for kind in get_args(get_args(Sharing)[0]):
        if kind.model_fields.keys() == {"kind"}:
            yield kind()
