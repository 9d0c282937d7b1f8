"""Figures as plotly reads them, and its script for the page. Imported when a page is made."""

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

from bertc.diagnostics import MissingInputError
from bertc.report.markup import Html, element

INSTALL = "pip install -c constraints.txt -e '.[report]'"
COLOURS = (
    "#3b7dd8", "#e07b39", "#2fa36b", "#c2507a", "#8d6fd1",
    "#b0912b", "#2ba0b5", "#d1495b", "#6c9a3d", "#8a8f98",
)  # fmt: skip
"""Colours of traces, readable on white and on black."""
COLOUR_SCALE = [[0, "#f1f5fb"], [0.5, "#6fa0e0"], [1, "#123f86"]]
"""Colours of a matrix from its least to its most."""
FACTORY = re.compile(r"(.{,1000}? : this, )(\(\) => \{.*\})(\)\);\s*)", re.DOTALL)
"""Text before the function within plotly's script, the function, and the text after it."""

SHORT_LABEL, SHORT_LABELS = 4, 40
"""Characters of a label, and of all of an axis, that have room however narrow the page is."""


@cache
def plotly_js() -> str:
    """plotly's script, minified.

    Raises:
        MissingInputError: if plotly is not installed.
    """
    try:
        text: str = import_module("plotly.offline").get_plotlyjs()
    except ImportError:
        raise MissingInputError(
            "plotly is not installed, which pages with pictures need", help=INSTALL
        ) from None
    return _compiled_early(text)


def _compiled_early(script: str) -> str:
    """The script with parentheses around the function that it is, if it is as in plotly 7.

    Browsers take such a function as one that runs at once, and compile it with the script, beside
    the page; any other they read twice, and the second time the page waits.
    """
    found = FACTORY.fullmatch(script)
    return "".join((found[1], "(", found[2], ")", found[3])) if found else script


def trace(kind: str, **fields: Any) -> dict[str, Any]:
    """A trace as JSON values: plotly's own objects would check each of thousands of fields."""
    return {"type": kind, **fields}


def figure(traces: Iterable[dict[str, Any]], **layout: Any) -> dict[str, Any]:
    """A figure as JSON values, with the margins and legend of all pictures of the page."""
    common = {
        "margin": {"l": 56, "r": 12, "t": 34, "b": 44},
        "height": 300,
        "colorway": COLOURS,
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": -0.22, "yanchor": "top", "x": 0, "font": {"size": 11}},
    }
    return {"data": list(traces), "layout": {**common, **layout}}


def values_axis(values: Iterable[float]) -> dict[str, Any]:
    """An axis of values; of those that are all the same plotly would show one unit up and down."""
    found = {*values}
    if len(found) != 1:
        return {}
    (value,) = found
    around = 0.05 * (abs(value) or 1.0)
    return {"range": [value - around, value + around]}


def labels_axis(labels: Sequence[str], **fields: Any) -> dict[str, Any]:
    """An axis of labels, which makes room for long ones; plotly draws such a picture twice."""
    room = max(map(len, labels)) > SHORT_LABEL or len("  ".join(labels)) > SHORT_LABELS
    return {"type": "category", "automargin": room, **fields}


def picture_title(text: str) -> dict[str, Any]:
    """The title of a picture, at its left."""
    return {"text": text, "x": 0, "xref": "paper", "xanchor": "left", "font": {"size": 14}}


def legend(names: Iterable[str]) -> Html:
    """The colours of pictures with their names, for all pictures of a section."""
    return element(
        "p",
        (
            element(
                "span",
                element("i", style=f"background: {COLOURS[number % len(COLOURS)]}"),
                name,
            )
            for number, name in enumerate(names)
        ),
        class_="legend",
    )
