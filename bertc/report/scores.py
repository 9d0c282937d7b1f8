"""Scores of runs over their seeds, the settings that tell them apart, and score against cost."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bertc.diagnostics import DataError
from bertc.ir.program.model import model_weights
from bertc.report.axes import run_time_unit
from bertc.report.markup import Content, element, in_picture, note_below, table_of
from bertc.report.page import Picture
from bertc.report.plotly_js import COLOURS, figure, legend, picture_title, trace, values_axis
from bertc.runs.compare import heading as score_heading
from bertc.runs.curves import Curves
from bertc.runs.groups import Group
from bertc.runs.intervals import SPREAD, mean_text
from bertc.runs.results import Run, Score

MOST_ROWS = 400


def said(score: Score) -> str:
    """A score in words."""
    return score_heading(score).replace("\n", " ")


def scores_of(groups: Sequence[Group]) -> list[Score]:
    """The scores of all groups; those of tasks first, each task's own metric before others."""
    every = list(dict.fromkeys(score for group in groups for score in group.last))
    return sorted(every, key=lambda score: len(score) != 3)


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
        cells = [mean_text(group.last[s]) if s in group.last else "" for s in scores]
        best = [
            f"best {mean_text(group.best[s][0])} at {group.best[s][1][0]:,}"
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
    remark += f"; {SPREAD}." if several else "."
    more = len(groups) - MOST_ROWS
    cut = f" {more} more rows are left out." if more > 0 else ""
    return (
        table_of(head, rows, numbers=0 if alone else placed + len(names)),
        note_below(remark + cut),
    )


def _place(group: Group) -> Content:
    standing = element("small", f" at {group.standing}") if group.standing else None
    return (group.place, standing)


def _cost(run: Run, curves: Curves | None) -> tuple[float, float, float]:
    """FLOPs and seconds of a run until its last line of metrics, and its parameters."""
    weights = run.parameters_left or sum(weight.numel for weight in model_weights(run.resolved))
    last = curves.points[-1] if curves and curves.points else None
    return (last.flops, last.seconds, weights) if last else (0.0, 0.0, weights)


def against_cost(
    groups: Sequence[Group], names: Sequence[str], curves: Mapping[Path, Curves | None]
) -> Sequence[Content | Picture]:
    """A picture a score: every run's last score against what it cost."""
    costs = {run.folder: _cost(run, curves.get(run.folder)) for g in groups for run in g.runs}
    time, unit = run_time_unit(seconds for _, seconds, _ in costs.values())
    axes = {
        "FLOPs of training": {run: flops for run, (flops, _, _) in costs.items()},
        time: {run: seconds / unit for run, (_, seconds, _) in costs.items()},
        "parameters": {run: float(weights) for run, (_, _, weights) in costs.items()},
    }
    # First the axes along which runs differ.
    shown = sorted(axes, key=lambda name: len({*axes[name].values()}) == 1)
    choice = element("select", (element("option", name) for name in shown), data_control="along")
    return (
        legend(names) if len(groups) <= MOST_NAMED else None,
        element("div", element("label", "against", choice), class_="controls"),
        *(
            _scattered(score, groups, names, {name: axes[name] for name in shown})
            for score in scores_of(groups)[:MOST_SCORES]
        ),
    )


def _scattered(
    score: Score,
    groups: Sequence[Group],
    names: Sequence[str],
    axes: Mapping[str, Mapping[Path, float]],
) -> Picture:
    """Points of runs; ``axes`` are their places by the title of an axis, the first shown first."""
    first = next(iter(axes))
    traces, along = [], {title: list[list[float]]() for title in axes}
    named = list(zip(map(in_picture, names), groups, strict=True))
    # A trace a colour: a browser is slow at hundreds of traces.
    for number in range(min(len(groups), len(COLOURS))):
        runs = [
            (name, run)
            for name, group in named[number :: len(COLOURS)]
            for run in group.runs
            if score in run.last_scores
        ]
        for title, places in axes.items():
            along[title].append([places[run.folder] for _, run in runs])
        traces.append(
            trace(
                "scatter",
                x=along[first][-1],
                y=[run.last_scores[score] for _, run in runs],
                mode="markers",
                marker={"size": 9, "color": COLOURS[number], "opacity": 0.85},
                text=[f"{name}, seed {run.resolved.run.seed}" for name, run in runs],
                hovertemplate="%{y:.4f} at %{x:.4~s}<extra>%{text}</extra>",
            )
        )
    made = figure(
        traces,
        title=picture_title(in_picture(said(score))),
        showlegend=False,
        xaxis={"title": {"text": first}},
        yaxis=values_axis(value for one in traces for value in one["y"]),
    )
    return Picture(made, along=along, marks={title: [] for title in axes})


MOST_SCORES, MOST_NAMED = 8, 12


def group_label(group: Group) -> str:
    """The settings that tell a group apart, as a text."""
    return ", ".join(f"{name}={text}" for name, text in group.settings.items() if text)
