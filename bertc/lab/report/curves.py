"""Curves of runs: loss, scores, rate, gradient norm and throughput, along four axes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bertc import DataError
from bertc.lab.report.markup import in_picture, remark
from bertc.lab.report.page import Part
from bertc.lab.report.pictures import Picture, along, colour, end_to_end, legend, menu
from bertc.lab.results.curves import Curves, MetricsPoint
from bertc.lab_api import loss_title, shown_figures

DRAWN_POINTS, MOST_OF_A_CURVE, FEWEST_OF_A_CURVE = 60_000, 2000, 50
"""Points of all curves of a page, of one, and of each where there are very many."""
MARKED_POINTS = 100
"""Points of a curve up to which each is marked."""
AXES: dict[str, Callable[[MetricsPoint], float]] = {
    "steps": lambda point: point.step, "tokens": lambda point: point.tokens,
    "hours": lambda point: point.seconds / 3600, "FLOPs": lambda point: point.flops,
}  # fmt: skip
GUESS = "eval/unigram_loss"
LOSSES = ("train/loss", "eval/loss", GUESS)
OF_TERMS = ("eval/loss/", "eval/accuracy/", GUESS)


@dataclass(frozen=True)
class RunCurves:
    """The curves of a run, its name at the pointer, and the group whose colour it has."""

    name: str
    group: str
    curves: Curves


@dataclass(frozen=True)
class Panel:
    """A picture of the figures ``names`` of every run; ``scales`` may have a logarithmic axis."""

    title: str
    names: tuple[str, ...]
    scales: bool = False


def panels(names: Sequence[str]) -> list[Panel]:
    """The pictures of figures by name (``lab.results.figures.values_of``), those there are."""
    there = shown_figures(names)

    def named(*beginnings: str, parts: int) -> tuple[str, ...]:
        return tuple(n for n in there if n.startswith(beginnings) and n.count("/") == parts - 1)

    tasks = dict.fromkeys("/".join(n.split("/")[:2]) for n in names if n.count("/") == 3)
    of_languages = tuple(n for n in named("eval/", parts=3) if not n.startswith(OF_TERMS))
    terms = named("train/loss/", "eval/loss/", parts=3)
    masked = "eval/loss_masked" in there
    if len(terms) > 2 or masked:
        terms += named(GUESS, parts=3)
    loss = "Loss, all predicted positions" if masked else "Loss"
    shown = [
        *(Panel(f"Scores of {t.partition('/')[2]}", named(f"{t}/", parts=4)) for t in tasks),
        Panel("Loss of each objective", terms if len(terms) > 2 else (), scales=True),
        Panel(loss, tuple(n for n in names if n in LOSSES), scales=True),
        Panel("Accuracy", named("train/accuracy/", "eval/accuracy/", parts=3)),
        Panel("Loss by language", of_languages, scales=True),
        Panel("Learning rate", tuple(n for n in names if n == "train/lr"), scales=True),
        Panel("Gradient norm", tuple(n for n in names if n == "train/grad_norm"), scales=True),
        Panel("Tokens a second", tuple(n for n in names if n == "train/tokens_per_second")),
    ]
    return [panel for panel in shown if panel.names]


def curves_section(runs: Sequence[RunCurves]) -> Sequence[Part]:
    """Curves of runs laid over each other; those of one with its stages."""
    runs = [run for run in runs if run.curves.points]
    if not runs:
        raise DataError("there are no metrics yet", help="they come with the first logged step")
    shown = panels(list(dict.fromkeys(name for run in runs for name in run.curves.names)))
    wanted = sum(len(panel.names) for panel in shown) * len(runs)
    most = min(MOST_OF_A_CURVE, max(FEWEST_OF_A_CURVE, DRAWN_POINTS // wanted))
    text = "Solid: held out; dotted: training. A colour is a group of runs; the pointer names each."
    pictures = [_picture(panel, runs, most) for panel in shown]
    if len(runs) == 1:
        return pictures
    return (legend(list(dict.fromkeys(run.group for run in runs))), *pictures, remark(text))


def _picture(panel: Panel, runs: Sequence[RunCurves], most: int) -> Picture:
    alone = len(runs) == 1
    lines = list(_lines(panel, runs, most))
    stages = _stages(runs[0].curves) if alone else []
    places = {axis: [end_to_end([*map(of, p)] for _, p in line.parts) for line in lines]
              for axis, of in AXES.items()}  # fmt: skip
    axes = along(places)
    for button in axes["buttons"]:
        button["args"][1]["shapes"] = stages if button["label"] == "steps" else []
    scale = menu({name: ({}, {"yaxis.type": name}) for name in ("linear", "log")}, x=0.7)
    return Picture(
        panel.title,
        [_trace(line, xs, alone) for line, xs in zip(lines, places["steps"], strict=True)],
        {
            "xaxis": {"title": {"text": "steps"}},
            "yaxis": {"exponentformat": "SI" if "tokens" in panel.names[0] else "power"},
            "shapes": stages,
            "showlegend": alone and len(lines) > 1,
            "updatemenus": [axes, *([scale] if panel.scales else [])],
        },
    )


def _stages(curves: Curves) -> list[dict[str, Any]]:
    """Lines where the stages of a run begin, none of a single one."""
    first = {point.stage: point.step for point in reversed(curves.points)}
    return [
        {
            "type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": step, "x1": step,
            "line": {"width": 1, "dash": "dash", "color": "#7c8794"},
            "label": {"text": in_picture(stage), "textposition": "end", "textangle": 0},
        }
        for stage, step in first.items() if len(first) > 1
    ]  # fmt: skip


@dataclass(frozen=True)
class _Line:
    """A figure of a group of runs: the points of each run after its name."""

    name: str
    group: str
    colour: int
    dotted: bool
    parts: Sequence[tuple[str, Sequence[MetricsPoint]]]


def _lines(panel: Panel, runs: Sequence[RunCurves], most: int) -> Iterator[_Line]:
    """The lines of a picture: a colour a figure of one run, else a colour a group."""
    alone, groups = len(runs) == 1, list(dict.fromkeys(run.group for run in runs))
    both = len({name.partition("/")[0] for name in panel.names}) > 1
    for nth, name in enumerate(panel.names):
        # Guessing by frequency has nearly the same loss in all runs, far below that of young ones.
        guess = name.startswith(GUESS)
        for number, group in enumerate(groups):
            parts = [
                (run.name, _evenly([p for p in run.curves.points if name in p.values], most))
                for run in runs
                if run.group == group
            ]
            if any(points for _, points in parts) and (alone or not guess):
                dotted = guess or both and not alone and name.startswith("train")
                yield _Line(name, group, nth if alone else number, dotted, parts)


def _evenly(points: list[MetricsPoint], most: int) -> list[MetricsPoint]:
    """Every second, third, ... point, so that there are at most ``most``, and the last."""
    every = -(-len(points) // most) or 1
    return points[::every] + points[-1:] * ((len(points) - 1) % every > 0)


def _trace(line: _Line, places: Sequence[float | None], alone: bool) -> dict[str, Any]:
    points = sum(len(points) for _, points in line.parts)
    label = in_picture(_short(line.name) if alone else f"{line.group}: {_short(line.name)}")
    return {
        "type": "scatter",
        "name": label,
        "x": places,
        "y": end_to_end([p.values[line.name] for p in points] for _, points in line.parts),
        "text": end_to_end([in_picture(run)] * len(points) for run, points in line.parts),
        "mode": "lines+markers" if points <= MARKED_POINTS * len(line.parts) else "lines",
        "line": {"width": 1.6, "color": colour(line.colour),
                 "dash": "dot" if line.dotted else "solid"},
        "marker": {"size": 4},
        "hovertemplate": "%{y:.5~g} at %{x:,}<extra>"
        + (label if alone else "%{text}: " + in_picture(_short(line.name))) + "</extra>",
    }  # fmt: skip


def _short(name: str) -> str:
    """A figure's name in words: "training, mlm", "held out", "dev accuracy"."""
    kind, *rest = name.split("/")
    if name.startswith(GUESS):
        return ", ".join(["by token frequency", *map(loss_title, rest[1:])])
    if len(rest) == 3:  # a task's part and metric
        return " ".join(rest[1:])
    if len(rest) == 1 and rest[0] != "loss":
        return rest[0].replace("_", " ")
    words = [loss_title(word) for word in rest if word not in ("loss", "accuracy")]
    return ", ".join(["training" if kind == "train" else "held out", *words])
