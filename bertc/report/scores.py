"""Scores of runs over their seeds, the settings that tell them apart, and score against cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertc.diagnostics import DataError
from bertc.ir.program.model import model_weights
from bertc.report.markup import Content, element, in_picture, note_below, table_of
from bertc.report.page import Picture
from bertc.report.plotly_js import COLOURS, figure, legend, objects, picture_title
from bertc.runs.compare import heading as score_heading
from bertc.runs.curves import Curves
from bertc.runs.groups import Group, Summary
from bertc.runs.intervals import interval
from bertc.runs.results import Run, Score

MOST_ROWS = 400


def said(score: Score) -> str:
    """A score in words."""
    return score_heading(score).replace("\n", " ")


def scores_of(groups: Sequence[Group]) -> list[Score]:
    """The scores of all groups; those of tasks first, each task's own metric before others."""
    every = list(dict.fromkeys(score for group in groups for score in group.last))
    return sorted(every, key=lambda score: len(score) != 3)


def score_text(summary: Summary) -> str:
    """A mean with its 95% interval where there are several runs."""
    if summary.runs == 1:
        return f"{summary.mean:.4f}"
    return f"{summary.mean:.4f} ± {interval(summary):.4f}"


def groups_section(groups: Sequence[Group]) -> Sequence[Content]:
    """A row a group of runs: settings that differ, seeds, and the last scores.

    Raises:
        DataError: if none was evaluated.
    """
    scores = scores_of(groups)
    if not scores:
        raise DataError("nothing was evaluated yet", help="bertc eval RUN does it now")
    names = list(groups[0].settings) if len(groups) > 1 else []
    alone = len(groups) == 1 and len(groups[0].runs) == 1
    placed = len({group.place for group in groups}) > 1 or not names
    first = (*(["run"] if placed else []), *names, "seeds")
    head = (*(() if alone else first), *map(said, scores))
    rows = []
    for group in groups[:MOST_ROWS]:
        cells = [score_text(group.last[s]) if s in group.last else "" for s in scores]
        best = [
            f"best {score_text(group.best[s][0])} at {group.best[s][1][0]:,}"
            if s in group.best
            else None
            for s in scores
        ]
        place = [_place(group)] if placed else []
        about = (*place, *(group.settings[n] for n in names), f"{len(group.seeds)}")
        shown = (
            (c, element("br"), element("small", b)) if b else c
            for c, b in zip(cells, best, strict=True)
        )
        rows.append((*(() if alone else about), *shown))
    several = any(len(group.runs) > 1 for group in groups)
    remark = "The last evaluation of each run"
    remark += "; mean over the seeds ± half its 95% interval (Student's)." if several else "."
    more = len(groups) - MOST_ROWS
    cut = f" {more} more rows are left out." if more > 0 else ""
    return (
        table_of(head, rows, numbers=0 if alone else placed + len(names)),
        note_below(remark + cut),
    )


def _place(group: Group) -> Content:
    standing = element("small", f" at {group.standing}") if group.standing else None
    return (group.place, standing)


@dataclass(frozen=True)
class Spent:
    """The axes of cost: the figures that a run took, and its parameters."""

    parameters: int
    flops: float
    seconds: float


COSTS: Mapping[str, str] = {
    "FLOPs of training": "flops", "seconds": "seconds", "parameters": "parameters"
}  # fmt: skip


def spent(run: Run, curves: Curves | None) -> Spent:
    """The cost of a run until its last line of metrics."""
    weights = run.parameters_left or sum(weight.numel for weight in model_weights(run.resolved))
    last = curves.points[-1] if curves and curves.points else None
    return Spent(weights, last.flops if last else 0.0, last.seconds if last else 0.0)


def against_cost(
    groups: Sequence[Group], names: Sequence[str], curves: Mapping[Path, Curves | None]
) -> Sequence[Content | Picture]:
    """A picture a score: every run's last score against what it cost."""
    costs = {run.folder: spent(run, curves.get(run.folder)) for g in groups for run in g.runs}
    # First the axes along which runs differ.
    axes = sorted(
        COSTS, key=lambda name: len({getattr(each, COSTS[name]) for each in costs.values()}) == 1
    )
    choice = element("select", (element("option", name) for name in axes), data_control="along")
    return (
        legend(names) if len(groups) <= MOST_NAMED else None,
        element("div", element("label", "against", choice), class_="controls"),
        *(
            _scattered(score, groups, names, costs, axes)
            for score in scores_of(groups)[:MOST_SCORES]
        ),
    )


def _scattered(
    score: Score,
    groups: Sequence[Group],
    names: Sequence[str],
    costs: Mapping[Path, Spent],
    axes: Sequence[str],
) -> Picture:
    traces, along = [], {name: list[list[float]]() for name in axes}
    for number, group in enumerate(groups):
        runs = [run for run in group.runs if score in run.last_scores]
        for shown in axes:
            along[shown].append([getattr(costs[run.folder], COSTS[shown]) for run in runs])
        traces.append(
            objects().Scatter(
                x=along[axes[0]][-1],
                y=[run.last_scores[score] for run in runs],
                mode="markers",
                name=in_picture(names[number]),
                marker={"size": 9, "color": COLOURS[number % len(COLOURS)], "opacity": 0.85},
                text=[f"seed {run.resolved.run.seed}" for run in runs],
                hovertemplate="%{y:.4f} at %{x:.4~s}, %{text}<extra>%{fullData.name}</extra>",
            )
        )
    made = figure(
        traces,
        title=picture_title(in_picture(said(score))),
        showlegend=False,
        xaxis={"title": {"text": axes[0]}},
    )
    return Picture(made, along=along, marks={name: [] for name in axes})


MOST_SCORES, MOST_NAMED = 8, 12


def group_label(group: Group) -> str:
    """The settings that tell a group apart, as a text."""
    return ", ".join(f"{name}={text}" for name, text in group.settings.items() if text)
