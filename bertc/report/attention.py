"""Attention as a part of a page: a small picture of every head, and each closer on demand."""

import json
from collections.abc import Sequence
from pathlib import Path

from bertc.diagnostics import DataError, plain_text, several
from bertc.inference.heads import Head, heads
from bertc.inference.looking import Looking, looking
from bertc.ir.program.resolved import Resolved
from bertc.report.examples import first_text
from bertc.report.markup import Content, Html, element, note_below, table_of
from bertc.report.page import packed_script

NAME = "maps"
SAMPLED_ROWS = 64
"""Rows of a report that tell the patterns of heads."""
PATTERNS = {
    "vertical": "v", "diagonal": "d", "vertical and diagonal": "vd", "block": "b",
    "heterogeneous": "h",
}  # fmt: skip
"""Patterns of heads, and letters for them."""
HOW = (
    "A square is a head: a row for each token that looks, a column for each that it looks at, "
    "stronger in colour the more. Click one to see it closer, then a token to see what it looks at."
)


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
        note_below(HOW + (" The text is cut." if looking.cut else "")),
        element("div", class_="attention", data_maps=NAME),
        packed_script(f"{NAME}-about", told),
        packed_script(NAME, content),
        *_patterns(looking),
    )


def _patterns(looking: Looking) -> Sequence[Content]:
    """A row a layer: the pattern of each head over a file, and how many there are of each."""
    if not looking.patterns:
        return ()
    most = max(looking.heads)
    rows = [
        (f"layer {layer}", *(_cell(looking.patterns.get((layer, head))) for head in range(most)))
        for layer in range(len(looking.heads))
    ]
    found = [head.pattern for head in looking.patterns.values()]
    counts = [
        (element("span", letter, class_=f"pattern kind-{number}"), f" {name}: {found.count(name)} ")
        for number, (name, letter) in enumerate(PATTERNS.items())
    ]
    return (
        element("h3", f"What heads look at in {several(looking.rows, 'row')}"),
        element("p", counts),
        table_of(("", *map(str, range(most))), rows, numbers=most + 1),
        note_below(
            "Patterns of Kovaleva et al. 2019, 4.1: vertical is on [CLS] and [SEP], diagonal on "
            "the token and its neighbours, block within its segment. The pointer tells shares, "
            "entropy in nats and distance in tokens."
        ),
    )


def _cell(head: Head | None) -> Html | None:
    if head is None:
        return None
    shares = (
        f"[CLS] {head.cls:.0%}, [SEP] {head.sep:.0%}, itself {head.itself:.0%}, next "
        f"{head.next:.0%}, previous {head.previous:.0%}; entropy {head.entropy:.2f}, distance "
        f"{head.distance:.1f}"
    )
    number = [*PATTERNS].index(head.pattern)
    return element("span", PATTERNS[head.pattern], class_=f"pattern kind-{number}", title=shares)
