"""A grid of runs: a matrix of two settings, each setting alone, and the best point."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from bertc.report.markup import Content, element, in_picture, note_below
from bertc.report.page import Picture
from bertc.report.plotly_js import (
    COLOUR_SCALE,
    COLOURS,
    figure,
    labels_axis,
    picture_title,
    trace,
    values_axis,
)
from bertc.report.scores import said, scores_of
from bertc.runs.groups import Group, summary_of
from bertc.runs.intervals import interval, mean_text
from bertc.runs.results import Score

MOST_VALUES = 30
"""Values of a setting from which it is no axis of a matrix."""


@dataclass(frozen=True)
class _Cell:
    """A group by its settings, and the values of one score of its runs."""

    settings: Mapping[str, str]
    values: tuple[float, ...]


def varied(groups: Sequence[Group]) -> list[str]:
    """The settings that have several values, each in more than one group or in all."""
    names = groups[0].settings
    return [name for name in names if len({group.settings[name] for group in groups}) > 1]


def is_grid(groups: Sequence[Group]) -> bool:
    """True if groups are points of a grid, which are more than the settings that it varies."""
    return 0 < len(varied(groups)) < len(groups)


def grid_section(groups: Sequence[Group]) -> Sequence[Content | Picture]:
    """For the first score: the best point, each setting's values, matrices of pairs of settings."""
    score, names = scores_of(groups)[0], varied(groups)
    better = max if len(score) == 3 else min
    scored = [group for group in groups if score in group.last]
    cells = [
        _Cell(g.settings, tuple(r.last_scores[score] for r in g.runs if score in r.last_scores))
        for g in scored
    ]
    best = better(scored, key=lambda group: group.last[score].mean)
    pairs = [
        pair
        for pair in combinations(names, 2)
        if all(len({cell.settings[name] for cell in cells}) <= MOST_VALUES for name in pair)
        and len({tuple(cell.settings[name] for name in pair) for cell in cells})
        > max(len({cell.settings[name] for cell in cells}) for name in pair)
    ]
    return (
        element(
            "p", "Best: ", element("strong", _point(best, names)),
            f", {said(score)} {mean_text(best.last[score])}.",
        ),
        *(_matrix(cells, pair, score) for pair in pairs),
        *(_marginal(cells, name, score, number) for number, name in enumerate(names)),
        note_below(
            "A value of a setting: the mean over all runs that have it, and half its 95% interval; "
            "dots are runs. A square: the mean over its runs."
        ),
    )  # fmt: skip


def _point(group: Group, names: Sequence[str]) -> str:
    return ", ".join(f"{name}={group.settings[name]}" for name in names) or group.place


def _in_order(values: set[str]) -> list[str]:
    """Texts of values, numbers by size."""

    def key(text: str) -> tuple[bool, float, str]:
        try:
            return False, float(text.rstrip("%")), text
        except ValueError:
            return True, 0.0, text

    return sorted(values, key=key)


def _matrix(cells: Sequence[_Cell], pair: tuple[str, str], score: Score) -> Picture:
    across, down = pair
    xs, ys = (_in_order({cell.settings[name] for cell in cells}) for name in pair)
    found = [
        [
            [v for c in cells if (c.settings[across], c.settings[down]) == (x, y) for v in c.values]
            for x in xs
        ]
        for y in ys
    ]
    means = [[fmean(values) if values else None for values in row] for row in found]
    texts = [[mean_text(summary_of(v)) if v else "" for v in row] for row in found]
    columns, rows = [*map(in_picture, xs)], [*map(in_picture, ys)]
    few = len(xs) * len(ys) <= MOST_VALUES
    square = trace(
        "heatmap", z=means, x=columns, y=rows, text=texts,
        texttemplate="%{text}" if few else None, showscale=not few, colorbar={"thickness": 12},
        colorscale=COLOUR_SCALE, reversescale=len(score) != 3, xgap=2, ygap=2,
        hovertemplate="%{x}, %{y}: %{text}<extra></extra>",
    )  # fmt: skip
    made = figure(
        [square],
        title=picture_title(in_picture(said(score))),
        xaxis=labels_axis(columns, title={"text": in_picture(across)}),
        yaxis=labels_axis(rows, title={"text": in_picture(down)}),
    )
    return Picture(made)


def _marginal(cells: Sequence[_Cell], name: str, score: Score, number: int) -> Picture:
    values = _in_order({cell.settings[name] for cell in cells})
    of_value = {
        value: [v for cell in cells if cell.settings[name] == value for v in cell.values]
        for value in values
    }
    summaries = [summary_of(of_value[value]) for value in values]
    colour = COLOURS[number % len(COLOURS)]
    dots = [(in_picture(value), each) for value in values for each in of_value[value]]
    traces = [
        trace(
            "scatter", x=[x for x, _ in dots], y=[y for _, y in dots], mode="markers", name="runs",
            marker={"size": 6, "color": colour, "opacity": 0.35},
            hovertemplate="%{y:.4f}<extra></extra>",
        ),
        trace(
            "scatter", mode="markers", name="mean",
            x=[*map(in_picture, values)], y=[each.mean for each in summaries],
            marker={"size": 10, "color": colour},
            error_y={"type": "data", "array": [interval(each) for each in summaries],
                     "color": colour, "thickness": 1.5},
            text=[mean_text(each) for each in summaries],
            hovertemplate="%{x}: %{text}<extra></extra>",
        ),
    ]  # fmt: skip
    made = figure(
        traces,
        title=picture_title(f"{in_picture(said(score))} by {in_picture(name)}"),
        showlegend=False,
        xaxis=labels_axis([*map(in_picture, values)]),
        yaxis=values_axis(each for _, each in dots),
    )
    return Picture(made)
