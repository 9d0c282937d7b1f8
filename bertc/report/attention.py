"""Attention as a part of a page: a small picture of every head, and each closer on demand."""

import json
from collections.abc import Sequence
from pathlib import Path

from bertc.diagnostics import DataError, plain_text
from bertc.inference.heads import heads
from bertc.inference.looking import Looking, looking
from bertc.ir.program.resolved import Resolved
from bertc.report.examples import first_text
from bertc.report.markup import Content, element, note_below
from bertc.report.page import packed_script

NAME = "maps"
SAMPLED_ROWS = 64
"""Rows of a report that tell the patterns of heads."""
HOW = (
    "A square is a head: a row for each token that looks, a column for each that it looks at, "
    "stronger in colour the more. Click one to see it closer, then a token to see what it looks at."
)
PATTERNS = " Patterns are those of Kovaleva et al. 2019, 4.1; `bertc heads` lists them."


def attention_section(resolved: Resolved, run: Path, cache: Path) -> Sequence[Content]:
    """Maps over the first text that a run was evaluated on, and patterns over a few rows.

    Raises:
        MissingInputError: if there is no model, or no text.
        DataError: if files are damaged, or the network has no heads.
    """
    text, pair = first_text(resolved, run, cache)
    try:
        found = heads(run, examples=SAMPLED_ROWS, cache=cache, quiet=True)
    except DataError:  # patterns come with scores, which a run may lack; maps need none
        found = None
    shown = element("p", text, f" / {pair}" if pair else "")
    return (shown, *attention_body(looking(run, text, pair, found)))


def attention_body(looking: Looking) -> Sequence[Content]:
    """Maps of all heads of a text, and the patterns of heads over the rows of a file."""
    about = {
        "heads": looking.heads,
        "views": [
            {
                "name": view.name,
                "queries": [plain_text(token) for token in view.queries],
                "keys": [plain_text(token) for token in view.keys],
                "remembered": view.remembered,
            }
            for view in looking.views
        ],
        "said": {f"{layer}.{head}": h.pattern for (layer, head), h in looking.patterns.items()},
    }
    content = b"".join(view.maps_nqk.tobytes() for view in looking.views)
    told = json.dumps(about, separators=(",", ":")).encode()
    return (
        note_below(HOW + PATTERNS * bool(looking.patterns) + " The text is cut." * looking.cut),
        element("div", class_="attention", data_maps=NAME),
        packed_script(f"{NAME}-about", told),
        packed_script(NAME, content),
    )
