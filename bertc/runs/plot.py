"""Pictures: losses of a run over its steps, and scores against milliseconds."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from bertc.diagnostics import UsageError
from bertc.estimate.latency.table import Point
from bertc.ir.learning.objective import titled
from bertc.ir.terms.positions import of_all_positions, shown_figure
from bertc.runs.metrics import Line
from bertc.storage import durable

_METADATA: Mapping[str, dict[str, str | None]] = {"svg": {"Date": None}, "png": {}}
"""Facts in a file beside the picture: an SVG without the time."""
MARKERS = "os^Dv*Xp"
"""Signs of ways to run a network."""


def plot(lines: list[Line], path: Path) -> None:
    """Plot training and held-out losses of each objective from lines of metrics, as a PNG.

    Raises:
        CannotWriteError: if the disk has no room.
    """
    # Here and not above: most uses of this package draw nothing, and loading takes time.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    names = dict.fromkeys(name for line in lines for name in line["losses"])
    for index, term in enumerate(of_all_positions(names)):
        held_out = shown_figure(term, names)
        for kind, name, figures, style, label in (
            ("train", term, "losses", "-", "training"),
            ("eval", held_out, "losses", "o--", "held out"),
            ("eval", held_out, "unigram_losses", ":", "unigram frequencies"),
        ):
            there: list[Any] = [line for line in lines if line["kind"] == kind]
            there = [line for line in there if name in line.get(figures, {})]
            points = [(line["step"], line[figures][name]) for line in there]
            if points:
                title = f"{titled(name)}, {label}"
                axes.plot(*zip(*points, strict=True), style, color=f"C{index}", label=title)
    axes.set(xlabel="step", ylabel="loss (nats)")
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend()
    save(figure, path)


def plot_latencies(points: Sequence[Point], path: Path) -> None:
    """Plot scores against milliseconds as a PNG: a colour a network, a sign a way of running it.

    Raises:
        UsageError: if there are none.
        CannotWriteError: if the disk has no room.
    """
    if not points:
        raise UsageError(
            "--plot needs runs that were evaluated: no row has a score", help="name run folders"
        )
    from matplotlib.figure import Figure

    networks = list(dict.fromkeys(point.network for point in points))
    ways = list(dict.fromkeys(point.way for point in points))
    signs = dict(zip(ways, cycle(MARKERS), strict=False))
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    for number, network in enumerate(networks):
        for point in (point for point in points if point.network == network):
            axes.plot(point.milliseconds, point.score, signs[point.way], color=f"C{number}")
        axes.plot([], [], "o", color=f"C{number}", label=network)
    for way in ways:
        axes.plot([], [], signs[way], color="grey", label=way)
    scored = " or ".join(dict.fromkeys(point.scored for point in points))
    axes.set(xlabel="ms a text", ylabel=scored, xscale="log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
    figure.legend(fontsize="small", loc="outside right upper")
    save(figure, path, elsewhere="name another file")


def save(
    figure: Any, path: Path, elsewhere: str = durable.ANOTHER_OUT, described: str = ""
) -> None:
    """Write a matplotlib figure atomically: ``.svg``, and any other file as a PNG.

    ``described`` is kept in the file. The same figure gives the same file.

    Raises:
        CannotWriteError: if the disk has no room.
    """
    from matplotlib import rc_context

    kind = "svg" if path.suffix.lower() == ".svg" else "png"
    aside = path.with_name(f".tmp-{path.name}")
    with durable.writing(path, elsewhere=elsewhere):
        try:
            with rc_context({"svg.hashsalt": "bertc", "svg.fonttype": "none"}):
                figure.savefig(
                    aside, format=kind, metadata=_METADATA[kind] | {"Description": described}
                )
            aside.replace(path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
