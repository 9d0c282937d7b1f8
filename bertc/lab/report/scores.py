"""Scores of runs over their seeds, by the settings that differ, and against what they cost."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from bertc import DataError
from bertc.lab.report.page import Part
from bertc.lab.report.pictures import Dot, Picture, legend, scatter
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
    score, settings = scores_of(groups)[0], groups[0].settings
    values = {name: {group.settings[name] for group in groups} for name in settings}
    varied = [name for name in settings if 1 < len(values[name]) <= MOST_VALUES]
    return [_picture(name, score, groups, partial(_value_of, name)) for name in varied]


def _value_of(name: str, _: Run, group: Group) -> dict[str, float | str]:
    return {name: group.settings[name]}


def against_cost(groups: Sequence[Group]) -> Sequence[Part]:
    """A picture a score: the last score of every run against what the run cost."""

    def costs(run: Run, _: Group) -> dict[str, float | str]:
        hours = run.seconds / 3600
        return {"FLOPs of training": run.flops, "hours": hours, "parameters": run.parameters}

    shown = scores_of(groups)[:MOST_SCORES]
    pictures = (_picture(heading(score), score, groups, costs) for score in shown)
    return (legend([group_label(group) for group in groups]), *pictures)


def _picture(
    title: str, score: Score, groups: Sequence[Group],
    places: Callable[[Run, Group], Mapping[str, float | str]],
) -> Picture:  # fmt: skip
    """A dot a run, a colour a group."""
    dots = [
        Dot(
            places(run, group), run.last_scores[score], number,
            f"{group_label(group)}, seed {run.resolved.run.seed}",
        )
        for number, group in enumerate(groups)
        for run in group.runs if score in run.last_scores
    ]  # fmt: skip
    return scatter(title, dots, heading(score))
