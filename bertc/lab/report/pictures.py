"""Pictures of plotly in the looks of the page."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from bertc.lab.report.markup import Html, element, in_picture
from bertc.lab_api import optional_package

COLOURS = (
    "#3b7dd8", "#e07b39", "#2fa36b", "#c2507a", "#8d6fd1",
    "#b0912b", "#2ba0b5", "#d1495b", "#6c9a3d", "#8a8f98",
)  # fmt: skip
"""Colours of traces, readable on white and on black."""
plotly = partial(optional_package, "plotly.io", "pages with pictures", "report")
AXIS = {"gridcolor": "rgba(128,128,128,0.25)", "zeroline": False, "automargin": True}
HEIGHT = 320
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
MOST_NAMED = 24
"""Names in a legend."""
MAGNITUDE, SMALL = 10, 0.01
"""The largest of values by the smallest, and the largest alone, for a logarithmic axis."""


@dataclass(frozen=True)
class Picture:
    """A figure of plotly: a title above it, its traces and its layout."""

    title: str
    traces: Sequence[Mapping[str, Any]]
    layout: Mapping[str, Any]

    def html(self, number: int) -> Html:
        """The figure as an element; number 0 of a page brings plotly's script."""
        layout = {
            "template": "none", "colorway": COLOURS, "height": HEIGHT, "hovermode": "closest",
            "margin": {"l": 50, "r": 10, "t": 34, "b": 40}, "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)", "font": {"color": "#7c8794"},
            "showlegend": len(self.traces) > 1,
            "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom"},
            **self.layout,
            **{axis: AXIS | self.layout.get(axis, {}) for axis in ("xaxis", "yaxis")},
        }  # fmt: skip
        made = plotly().to_html(
            {"data": list(self.traces), "layout": layout},
            config={"responsive": True, "displayModeBar": False},
            include_plotlyjs=number == 0,
            full_html=False,
            div_id=f"picture-{number}",  # else drawn at random
        )
        return element("figure", element("h3", self.title), Html(made))


class Dot(NamedTuple):
    """A score in a picture: its place along each axis, the number of its colour, what it is."""

    places: Mapping[str, float | str]
    score: float
    number: int
    name: str


def scatter(title: str, dots: Sequence[Dot], score: str = "") -> Picture:
    """Scores over the first of their axes; a menu has the others."""
    axes = {axis: [dot.places[axis] for dot in dots] for axis in dots[0].places}
    first = next(iter(axes))
    places, looks = _axis(axes[first]) if len(axes) == 1 else (axes[first], {})
    trace = {
        "type": "scatter", "mode": "markers", "x": places, "y": [dot.score for dot in dots],
        "marker": {"size": 9, "color": [colour(dot.number) for dot in dots], "opacity": 0.85},
        "text": [in_picture(dot.name) for dot in dots],
        "hovertemplate": "%{y:.4f} at %{x}<extra>%{text}</extra>",
    }  # fmt: skip
    layout = {
        "xaxis": {"title": {"text": in_picture(first)}, **looks},
        "yaxis": {"title": {"text": in_picture(score)}},
        "updatemenus": [along({axis: [xs] for axis, xs in axes.items()})] if len(axes) > 1 else [],
    }
    return Picture(title, [trace], layout)


def _axis(values: Sequence[float | str]) -> tuple[Sequence[float | str], Mapping[str, Any]]:
    """Values as numbers if all are, and the looks of their axis; words are by their numbers."""
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        texts = [in_picture(value) for value in values]
        return texts, {"type": "category", "categoryarray": _by_size({*texts})}
    least, most = min(numbers), max(numbers)
    wide = least > 0 and (most < SMALL or most >= MAGNITUDE * least)
    return numbers, {"type": "log" if wide else "-", "exponentformat": "power"}


def _by_size(texts: Iterable[str]) -> list[str]:
    """Values by the numbers in them, such as ``adamw(lr=0.003)``; those without any last."""

    def key(text: str) -> tuple[bool, list[float], str]:
        numbers = [float(number) for number in NUMBER.findall(text)]
        return not numbers, numbers, text

    return sorted(texts, key=key)


def menu(places: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]], x: float = 1) -> Any:
    """A menu above a picture: what each choice changes of the traces and of the layout."""
    buttons = [
        {"label": label, "method": "update", "args": [dict(of_traces), dict(of_layout)]}
        for label, (of_traces, of_layout) in places.items()
    ]
    return {
        "buttons": buttons, "x": x, "xanchor": "right", "y": 1.02, "yanchor": "bottom",
        "bgcolor": "rgba(128,128,128,0.15)", "borderwidth": 0, "pad": {"t": 0, "b": 2},
    }  # fmt: skip


def along(places: Mapping[str, Sequence[Sequence[Any]]]) -> Any:
    """A menu of axes: the places of each trace's points by the title of an axis."""
    return menu({n: ({"x": list(xs)}, {"xaxis.title.text": n}) for n, xs in places.items()})


def legend(names: Sequence[str]) -> Html | None:
    """The colours of a section's pictures with their names, unless there are too many."""
    if not 1 < len(names) <= MOST_NAMED:
        return None
    return element(
        "p",
        (
            element("span", element("b", "■ ", style=f"color: {colour(number)}"), name, " ")
            for number, name in enumerate(names)
        ),
        class_="note",
    )


def colour(number: int) -> str:
    """The colour of a run, a group or a figure by its number."""
    return COLOURS[number % len(COLOURS)]


def end_to_end(parts: Iterable[Sequence[Any]]) -> list[Any]:
    """The points of several curves as one trace, with a gap after each."""
    return [value for part in parts for value in (*part, None)]
