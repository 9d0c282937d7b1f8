"""Scores of runs over their seeds, by the settings that differ, and against what they cost."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bertc import DataError
from bertc.lab.report.markup import in_picture
from bertc.lab.report.page import Part
from bertc.lab.report.pictures import Picture, along, by_size, colour, legend
from bertc.lab.results.compare import Results, heading
from bertc.lab.results.groups import Group
from bertc.lab.results.runs import Run
from bertc.lab_api import Table

Score = tuple[str, ...]
MOST_SCORES, MOST_VALUES = 8, 30
"""Scores that have a picture, and values of a setting up to which it is an axis of one."""


def groups_section(groups: Sequence[Group]) -> Sequence[Part]:
    """A row a group of runs: settings that differ, seeds, and the last scores."""
    if not scores_of(groups):
        raise DataError("nothing was evaluated yet", help="bertc eval RUN does it now")
    return Results(tuple(groups)).tables()


def result_section(run: Run) -> Sequence[Part]:
    """The last value of each score of a run, and that of its best evaluation."""
    if not run.last_scores:
        raise DataError("nothing was evaluated yet", help="bertc eval RUN does it now")
    best = run.best.values if run.best else {}
    rows = [
        (heading(score), f"{value:.4f}", f"{best[score]:.4f}" if score in best else "")
        for score, value in run.last_scores.items()
    ]
    notes = (f"The best evaluation came at step {run.best.step:,}.",) if run.best else ()
    return [Table(("score", "last", "best"), rows, notes=notes)]


def scores_of(groups: Sequence[Group]) -> list[Score]:
    """The scores of all groups; those of tasks first, each task's own metric before others."""
    every = list(dict.fromkeys(score for group in groups for score in group.last))
    return sorted(every, key=lambda score: len(score) != 3)


def group_label(group: Group) -> str:
    """The settings of a group that no other one has, else its place."""
    texts = (f"{name}={text}" for name, text in group.settings.items() if text)
    return ", ".join(texts) or group.place


def by_setting(groups: Sequence[Group]) -> Sequence[Part]:
    """A picture a setting that varies: the first score of every run over the values of it."""
    score = scores_of(groups)[0]
    return [
        _scatter_runs(score, groups, name, {name: _value_of(name)})
        for name in groups[0].settings
        if 1 < len({group.settings[name] for group in groups}) <= MOST_VALUES
    ]


def against_cost(groups: Sequence[Group]) -> Sequence[Part]:
    """A picture a score: the last score of every run against what the run cost."""
    axes: dict[str, Callable[[Run, Group], Any]] = {
        "FLOPs of training": lambda run, _: run.flops,
        "hours": lambda run, _: run.seconds / 3600,
        "parameters": lambda run, _: run.parameters,
    }
    shown = scores_of(groups)[:MOST_SCORES]
    pictures = (_scatter_runs(score, groups, heading(score), axes) for score in shown)
    return (legend([group_label(group) for group in groups]), *pictures)


def _scatter_runs(
    score: Score,
    groups: Sequence[Group],
    title: str,
    axes: Mapping[str, Callable[[Run, Group], Any]],
) -> Picture:
    """A point a run, a colour a group; the first of the axes is shown first."""
    places = {axis: list[list[Any]]() for axis in axes}
    traces = list[dict[str, Any]]()
    for number, group in enumerate(groups):
        runs = [run for run in group.runs if score in run.last_scores]
        for axis, place in axes.items():
            places[axis].append([place(run, group) for run in runs])
        traces.append(
            {
                "type": "scatter", "mode": "markers", "name": in_picture(group_label(group)),
                "x": places[next(iter(axes))][-1], "y": [run.last_scores[score] for run in runs],
                "marker": {"size": 9, "color": colour(number), "opacity": 0.85},
                "text": [f"seed {run.resolved.run.seed}" for run in runs],
                "hovertemplate": "%{y:.4f} at %{x}, %{text}<extra>%{fullData.name}</extra>",
            }
        )  # fmt: skip
    first = next(iter(axes))
    texts = {value for values in places[first] for value in values if isinstance(value, str)}
    order = {"type": "category", "categoryarray": by_size(texts)} if texts else {}
    return Picture(
        title,
        traces,
        {
            "xaxis": {"title": {"text": in_picture(first)}, **order},
            "yaxis": {"title": {"text": in_picture(heading(score))}},
            "updatemenus": [along(places)] if len(axes) > 1 else [],
            "showlegend": False,
        },
    )


def _value_of(name: str) -> Callable[[Run, Group], str]:
    return lambda _, group: in_picture(group.settings[name])
