"""Layers by their worth: the score of a model without one after another."""

import json
from dataclasses import dataclass
from pathlib import Path

from bertc.evaluation.held_out import Evaluation
from bertc.evaluation.without import LeftOut, transformer_of
from bertc.inference.evaluate import evaluate_run
from bertc.interop.loading import load
from bertc.runs.plot import heat_map


@dataclass(frozen=True)
class Worth:
    """The score of a run, and without each of its layers; ``figure`` names it.

    A score is the mean over tasks of their first metric, or the held-out loss of a run on text.
    """

    run: Path
    figure: str
    whole: float
    without: tuple[float, ...]

    def as_json(self) -> str:
        """The scores as one JSON object, by layer."""
        layers = [{"layer": n, "without": [score]} for n, score in enumerate(self.without)]
        content = {"run": str(self.run), "figure": self.figure, "whole": self.whole}
        return json.dumps({"schema": 1, **content, "layers": layers}, indent=1)

    def as_table(self) -> str:
        """A row a layer: how the score changes without it."""
        rows = (f"{n:>5} {score - self.whole:+9.4f}" for n, score in enumerate(self.without))
        title = f"{self.run}: {self.figure} {self.whole:.4f}; its change without each layer"
        return "\n".join((title, "layer    change", *rows))

    def plot(self, path: Path) -> None:
        """Draw the changes as a heat map, as a PNG.

        Raises:
            CannotWriteError: if the disk has no room.
        """
        changes = {layer: [score - self.whole] for layer, score in enumerate(self.without)}
        heat_map(changes, path, title=f"{self.figure} without it", across="", signed=True)


def worth_of_layers(
    run: Path, *, task: str = "", cache: Path | None = None, quiet: bool = False
) -> Worth:
    """Evaluate a run whole, and without each of its layers.

    Raises:
        MissingInputError, DataError, UsageError: as ``evaluate_run``.
    """

    def score(layers: str) -> tuple[str, float]:
        left_out = LeftOut(layers=layers)
        report = evaluate_run(run, task=task, left_out=left_out, cache=cache, quiet=quiet)
        assert report.evaluation is not None, "an evaluation ends with one"
        return _figure(report.evaluation)

    (figure, whole), depth = score(""), transformer_of(load(run)).depth
    return Worth(run, figure, whole, tuple(score(str(layer))[1] for layer in range(depth)))


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
