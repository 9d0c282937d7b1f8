"""Attention as a part of a page: a small picture of every head, and each closer on demand."""

import json
from collections.abc import Sequence
from pathlib import Path

from bertc.diagnostics import plain_text
from bertc.inference.attention import AttentionMaps
from bertc.inference.trained import load
from bertc.ir.program.resolved import Resolved
from bertc.report.examples import first_text
from bertc.report.markup import Content, element, note_below
from bertc.report.page import packed_script

NAME = "maps"
MAP_LEVELS = 255
HOW = (
    "A square is a head: a row for each token that looks, a column for each that it looks at, "
    "stronger in colour the more. Click one to see it closer, then a token to see what it looks at."
)


def attention_section(resolved: Resolved, run: Path, cache: Path) -> Sequence[Content]:
    """Maps over the first text that a run was evaluated on.

    Raises:
        MissingInputError: if there is no model, or no text.
        DataError: if files are damaged, or the network has no heads.
    """
    text, pair = first_text(resolved, run, cache)
    shown = element("p", text, f" / {pair}" if pair else "")
    return (shown, *attention_body(load(run).attention(text, pair)))


def attention_body(attention: AttentionMaps) -> Sequence[Content]:
    """Maps of all heads over a text, a byte an entry: 255 is all attention."""
    about = {
        "heads": [len(map_nqk) for map_nqk in attention.maps],
        "tokens": [plain_text(token) for token in attention.tokens],
    }
    levels = ((map_nqk * MAP_LEVELS).round().clamp(0, MAP_LEVELS) for map_nqk in attention.maps)
    content = b"".join(bytes(level.byte().flatten().tolist()) for level in levels)
    described = json.dumps(about, separators=(",", ":")).encode()
    return (
        note_below(HOW + " The text is cut." * attention.is_cut),
        element("div", class_="attention", data_maps=NAME),
        packed_script(f"{NAME}-about", described),
        packed_script(NAME, content),
    )
