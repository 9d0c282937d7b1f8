"""The picture of a run: its losses over its steps."""

from io import BytesIO
from pathlib import Path
from typing import Any

from bertc.base.storage import durable
from bertc.ir.learning.objective import titled
from bertc.ir.terms.positions import of_all_positions, shown_figure
from bertc.run.records.metrics import Line


def plot(lines: list[Line], path: Path) -> None:
    """Plot training and held-out losses of each objective from lines of metrics, as a PNG."""
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
    content = BytesIO()
    figure.savefig(content, format="png")
    durable.replace(path, content.getvalue())
