"""The settings of a spec that make a transformer, from the transformer."""

from typing import TYPE_CHECKING, Any

from bertc.ir.network.sharing import ShareAll, ShareMap, ShareNone, Sharing

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
    """A scheme with the encoder's owners."""
    depth = len(encoder.layers)
    owners = encoder.attention_owner, encoder.ffn_owner
    for scheme in (ShareNone(), ShareAll()):
        parts = (
            tuple(scheme.owner(part, layer, depth) for layer in range(depth))
            for part in ("attention", "ffn")
        )
        if owners == tuple(parts):
            return scheme
    return ShareMap(attention=owners[0], ffn=owners[1])
