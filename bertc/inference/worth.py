"""Heads and layers by their worth: the score of a model without one after another."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bertc.evaluation.held_out import Evaluation
from bertc.evaluation.without import LeftOut, transformer_of
from bertc.inference.evaluate import evaluate_run
from bertc.interop.loading import load
from bertc.ir.changing.pruning import units
from bertc.runs.plot import heat_map

WIDE = 200


@dataclass(frozen=True)
class Worth:
    """The score of a run, and without each of its heads or layers; ``figure`` names it.

    A score is the mean over tasks of their first metric, or the held-out loss of a run on text.
    ``without`` has the scores of a layer's heads, or of the layer alone, by layer.
    """

    run: Path
    figure: str
    of: str
    whole: float
    without: dict[int, Sequence[float]]

    def as_json(self) -> str:
        """The scores as one JSON object, by layer."""
        layers = [{"layer": n, "without": scores} for n, scores in self.without.items()]
        content = {"run": str(self.run), "figure": self.figure, "whole": self.whole}
        return json.dumps({"schema": 1, **content, "layers": layers}, indent=1)

    def as_table(self) -> str:
        """A row a layer: how the score changes without each head of it, or without itself."""
        title = f"{self.run}: {self.figure} {self.whole:.4f}; its change without each {self.of}"
        table = Table(title=title, title_justify="left")
        table.add_column("layer", justify="right")
        for number in range(self._columns):
            table.add_column(f"head {number}" if self.of == "head" else "change", justify="right")
        for layer, scores in self.without.items():
            table.add_row(str(layer), *(f"{score - self.whole:+.4f}" for score in scores))
        console = Console(width=WIDE, highlight=False, no_color=True)
        with console.capture() as captured:
            console.print(table)
        return captured.get().rstrip()

    def plot(self, path: Path) -> None:
        """Draw the changes as a heat map, as a PNG.

        Raises:
            CannotWriteError: if the disk has no room.
        """
        changes = {n: [s - self.whole for s in scores] for n, scores in self.without.items()}
        title, across = f"{self.figure} without it", "head" if self.of == "head" else ""
        heat_map(changes, path, title=title, across=across, signed=True)

    @property
    def _columns(self) -> int:
        return max(map(len, self.without.values()))


def worth_of_heads(
    run: Path, *, task: str = "", cache: Path | None = None, quiet: bool = False
) -> Worth:
    """Evaluate a run whole, and without each of its heads.

    Raises:
        MissingInputError, DataError, UsageError: as ``evaluate_run``.
    """
    counts = units(transformer_of(load(run)), "attention")
    each = {
        layer: [LeftOut(heads=f"{layer}.{head}") for head in range(number)]
        for layer, number in counts.items()
    }
    return _worth(run, "head", each, task, cache, quiet)


def worth_of_layers(
    run: Path, *, task: str = "", cache: Path | None = None, quiet: bool = False
) -> Worth:
    """Evaluate a run whole, and without each of its layers.

    Raises:
        MissingInputError, DataError, UsageError: as ``evaluate_run``.
    """
    depth = transformer_of(load(run)).depth
    each = {layer: [LeftOut(layers=str(layer))] for layer in range(depth)}
    return _worth(run, "layer", each, task, cache, quiet)


def _worth(
    run: Path,
    of: str,
    each: dict[int, list[LeftOut]],
    task: str,
    cache: Path | None,
    quiet: bool,
) -> Worth:
    def score(left_out: LeftOut) -> tuple[str, float]:
        report = evaluate_run(run, task=task, left_out=left_out, cache=cache, quiet=quiet)
        assert report.evaluation is not None, "an evaluation ends with one"
        return _figure(report.evaluation)

    figure, whole = score(LeftOut())
    without = {
        layer: [score(left_out)[1] for left_out in of_layer] for layer, of_layer in each.items()
    }
    return Worth(run, figure, of, whole, dict(without))


def _figure(evaluation: Evaluation) -> tuple[str, float]:
    """The mean over tasks and parts of the first metric, or the loss where there is no task."""
    firsts = [
        next(iter(metrics.items()))
        for parts in evaluation.scores.values()
        for metrics in parts.values()
    ]
    if not firsts:
        if evaluation.loss_masked is not None:
            return "held-out loss, masked", evaluation.loss_masked
        return "held-out loss", evaluation.loss
    names = dict.fromkeys(name for name, _ in firsts)
    return " and ".join(names), sum(value for _, value in firsts) / len(firsts)
