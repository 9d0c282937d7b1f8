"""plotly: its objects, and its script for the page. Imported when a page is made."""

from collections.abc import Iterable
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


def objects() -> Any:
    """plotly's figures and traces.

    Raises:
        MissingInputError: if it is not installed.
    """
    return _package("plotly.graph_objects")


def plotly_js() -> str:
    """plotly's script, minified."""
    text: str = _package("plotly.offline").get_plotlyjs()
    return text


def figure(traces: Iterable[Any], **layout: Any) -> dict[str, Any]:
    """A figure as JSON values, with the margins and legend of all pictures of the page."""
    go = objects()
    common = {
        "margin": {"l": 56, "r": 12, "t": 34, "b": 44},
        "height": 300,
        "colorway": COLOURS,
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": -0.22, "yanchor": "top", "x": 0, "font": {"size": 11}},
        "template": None,
    }
    made: dict[str, Any] = go.Figure(list(traces), go.Layout({**common, **layout}))
    found: dict[str, Any] = made.to_plotly_json()  # type: ignore[attr-defined]
    found["layout"].pop("template", None)
    return found


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


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingInputError(
            "plotly is not installed, which pages with pictures need", help=INSTALL
        ) from None
