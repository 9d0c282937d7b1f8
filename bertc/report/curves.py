"""Curves of runs: loss, scores, rate, gradient norm and throughput, along four axes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bertc.diagnostics import DataError
from bertc.ir.learning.objective import titled
from bertc.ir.terms.positions import shown_figures
from bertc.report.axes import Axis, axes, marks
from bertc.report.markup import Content, element, in_picture, note_below
from bertc.report.page import Picture
from bertc.report.plotly_js import COLOURS, figure, legend, picture_title, trace, values_axis
from bertc.report.thinning import rounded, smoothed, thinned
from bertc.runs.curves import Curves

DRAWN_POINTS, MOST_OF_A_CURVE, FEWEST_OF_A_CURVE = 40_000, 1000, 24
"""Points of all curves of a page, of one, and of each where there are very many."""
MARKED_POINTS = 100
"""Points of a curve up to which each is marked."""
MARKED_RUNS, MOST_NAMED = 12, 24
"""Runs up to which points are marked, and colours up to which a legend names them."""


@dataclass(frozen=True)
class RunCurves:
    """The curves of a run, the name at the pointer, and the number of its colour."""

    name: str
    colour: int
    curves: Curves


@dataclass(frozen=True)
class Panel:
    """A picture of the figures ``names`` of every run."""

    title: str
    names: tuple[str, ...]
    scales: bool = False
    exponents: str = "e"
    """plotly's format of large and small values."""


def panels(names: Sequence[str]) -> list[Panel]:
    """The pictures of figures by name (``runs.figures.values_of``), those there are."""
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
    found = [
        Panel("Loss of each objective", terms if len(terms) > 2 else (), scales=True),
        Panel(loss, tuple(n for n in names if n in LOSSES), scales=True),
        *(Panel(f"Scores of {t.partition('/')[2]}", named(f"{t}/", parts=4)) for t in tasks),
        Panel("Accuracy", named("train/accuracy/", "eval/accuracy/", parts=3)),
        Panel("Loss by language", of_languages, scales=True),
        Panel("Learning rate", tuple(n for n in names if n == "train/lr"), scales=True),
        Panel("Gradient norm", tuple(n for n in names if n == "train/grad_norm"), scales=True),
        Panel(
            "Tokens a second",
            tuple(n for n in names if n == "train/tokens_per_second"),
            exponents="SI",
        ),
    ]
    return [panel for panel in found if panel.names]


GUESS = "eval/unigram_loss"
LOSSES = ("train/loss", "eval/loss", GUESS)
OF_TERMS = ("eval/loss/", "eval/accuracy/", GUESS)


def curves_section(
    runs: Sequence[RunCurves], names: Sequence[str] = ()
) -> Sequence[Content | Picture]:
    """Curves of runs laid over each other, of one with marks; ``names`` are of the colours.

    Raises:
        DataError: if none has a line of metrics.
    """
    runs = [run for run in runs if run.curves.points]
    if not runs:
        raise DataError("there are no metrics yet", help="they come with the first logged step")
    figures = list(dict.fromkeys(name for run in runs for name in run.curves.names))
    every = panels(figures)
    drawn = [panel for panel in every if _is_a_curve(panel, runs)] or every
    wanted = sum(len(panel.names) for panel in drawn) * len(runs)
    most = min(MOST_OF_A_CURVE, max(FEWEST_OF_A_CURVE, DRAWN_POINTS // wanted))
    along = axes([run.curves for run in runs])
    pictures = [_picture(panel, runs, along, most) for panel in drawn]
    shown = legend(names) if 1 < len(names) <= MOST_NAMED else None
    return (shown, _controls(along), *pictures, _said(runs))


def _is_a_curve(panel: Panel, runs: Sequence[RunCurves]) -> bool:
    """True if any of its figures was logged twice; others are scores."""
    return any(
        sum(name in point.values for point in run.curves.points) > 1
        for run in runs
        for name in panel.names
    )


def _controls(along: Sequence[Axis]) -> Content:
    options = (element("option", axis.title) for axis in along)
    choice = element("select", options, data_control="along")
    return element(
        "div",
        element("label", "along", choice),
        *(
            element("label", element("input", type="checkbox", data_control=name), title)
            for name, title in (("smooth", "smoothed"), ("log", "logarithmic"))
        ),
        class_="controls",
    )


def _said(runs: Sequence[RunCurves]) -> Content:
    if len(runs) > 1:
        return note_below(
            "Solid: held out; dotted: training, where both are in a picture. Runs of one colour "
            "differ in the seed alone; the pointer names each."
        )
    curves, said = runs[0].curves, []
    if len({point.stage for point in curves.points}) > 1:
        said.append("Dashed lines: where a stage begins.")
    if len(curves.attempts) > 1:
        said.append("Dotted lines: where the run was taken up again.")
    return note_below(" ".join(said)) if said else None


def _picture(panel: Panel, runs: Sequence[RunCurves], along: Sequence[Axis], most: int) -> Picture:
    alone, many = len(runs) == 1, len(runs) > MARKED_RUNS
    lines = [line for run in runs for line in _lines(panel, run, along, alone, most)]
    shown = values_axis(value for line in lines for value in line.raw if value is not None)
    if many:
        lines = _merged(lines)
    lined = list(marks(runs[0].curves)) if alone else []
    made = figure(
        [_trace(line, along[0], many) for line in lines],
        title=picture_title(panel.title),
        showlegend=alone and len(lines) > 1,
        xaxis={"title": {"text": along[0].title}},
        yaxis={"exponentformat": panel.exponents, **shown},
        shapes=[mark.line() for mark in lined],
        annotations=[mark.label() for mark in lined],
    )
    return Picture(
        made,
        along={axis.title: [line.along[axis.title] for line in lines] for axis in along},
        smooth=[line.smooth for line in lines],
        marks={axis.title: [axis.place(mark) for mark in lined] for axis in along},
        scales=panel.scales,
        names=[line.names for line in lines] if many else None,
    )


TracePlaces = list[float | None]
"""Places or values of points; None where a line is interrupted."""


@dataclass(frozen=True)
class _Line:
    """A curve: its name, the numbers of its colour and of its figure, places by axis, values.

    ``names`` are those of its points in order, each with how many it has.
    """

    title: str
    names: Sequence[tuple[str, int]]
    colour: int
    nth: int
    dotted: bool
    along: dict[str, TracePlaces]
    raw: TracePlaces
    smooth: TracePlaces


def _lines(
    panel: Panel, run: RunCurves, along: Sequence[Axis], alone: bool, most: int
) -> Iterator[_Line]:
    """The curves of one run: a colour a figure if it stands alone, else that of the run."""
    both = len({name.partition("/")[0] for name in panel.names}) > 1
    for nth, name in enumerate(panel.names):
        points = [point for point in run.curves.points if name in point.values]
        # Guessing by frequency has nearly the same loss in all runs, far below that of young ones.
        guess = name.startswith(GUESS)
        if not points or not alone and guess:
            continue
        values = [point.values[name] for point in points]
        kept = thinned([point.step for point in points], values, most).tolist()
        means = smoothed(values)
        yield _Line(
            title=_short(name) if alone else f"{run.name}: {_short(name)}",
            names=[(in_picture(run.name), len(kept) + 1)],
            colour=nth if alone else run.colour,
            nth=nth,
            dotted=guess or both and not alone and name.startswith("train"),
            along={axis.title: rounded([axis.place(points[at]) for at in kept]) for axis in along},
            raw=rounded([values[at] for at in kept]),
            smooth=rounded([means[at] for at in kept]),
        )


def _merged(lines: Sequence[_Line]) -> list[_Line]:
    """Lines of one colour and figure as one with gaps: a browser is slow at hundreds of lines."""
    together: dict[tuple[int, int], list[_Line]] = {}
    for line in lines:
        together.setdefault((line.colour % len(COLOURS), line.nth), []).append(line)
    return [
        replace(
            each[0],
            names=[name for line in each for name in line.names],
            along={
                name: _end_to_end([line.along[name] for line in each]) for name in each[0].along
            },
            raw=_end_to_end([line.raw for line in each]),
            smooth=_end_to_end([line.smooth for line in each]),
        )
        for each in together.values()
    ]


def _end_to_end(parts: Sequence[TracePlaces]) -> TracePlaces:
    return [value for part in parts for value in (*part, None)]


def _trace(line: _Line, along: Axis, many: bool) -> Any:
    colour = COLOURS[line.colour % len(COLOURS)]
    title = "%{text}" if many else in_picture(line.title)
    return trace(
        "scatter",
        x=line.along[along.title],
        y=line.raw,
        name=title,
        mode="lines+markers" if len(line.raw) <= MARKED_POINTS and not many else "lines",
        line={
            "width": 1 if many else 1.8,
            "dash": "dot" if line.dotted else "solid",
            "color": colour,
        },
        marker={"size": 5, "color": colour},
        opacity=0.55 if many else 1,
        hovertemplate=f"%{{y:.5~g}} at %{{x:,}}<extra>{title}</extra>",
    )


def _short(name: str) -> str:
    """A figure's name in words: "training, mlm", "held out", "dev accuracy"."""
    kind, *rest = name.split("/")
    if name.startswith(GUESS):
        return ", ".join(["by token frequency", *map(titled, rest[1:])])
    if len(rest) == 3:  # a task's part and metric
        return " ".join(rest[1:])
    if len(rest) == 1 and rest[0] != "loss":
        return rest[0].replace("_", " ")
    words = [titled(each) for each in rest if each not in ("loss", "accuracy")]
    return ", ".join(["training" if kind == "train" else "held out", *words])
