"""Heads by their worth: the score of a run without one after another."""

import json
from dataclasses import dataclass
from pathlib import Path

from bertc import Evaluation, evaluate_heads


@dataclass(frozen=True)
class Worth:
    """The score of a run, and without each of its heads by name: 3.5.

    A score is the mean over tasks of their first metric, or the held-out loss of a run on text;
    ``figure`` names it.
    """

    run: Path
    figure: str
    score: float
    without: dict[str, float]

    def as_json(self) -> str:
        """The scores as one JSON object."""
        return json.dumps({"schema": 1, **vars(self), "run": str(self.run)}, indent=1)

    def as_table(self) -> str:
        """A row a head: how the score changes without it."""
        title = f"{self.run}: {self.figure} {self.score:.4f}; its change without each head"
        rows = (f"{name:>5} {score - self.score:+9.4f}" for name, score in self.without.items())
        return "\n".join((title, " head    change", *rows))


def worth(run: Path, *, task: str = "", examples: int = 0, quiet: bool = False) -> Worth:
    """Score a run, and without each of its heads."""
    complete, lesser = evaluate_heads(run, task=task, examples=examples, quiet=quiet)
    figure, score = _figure(complete)
    return Worth(run, figure, score, {name: _figure(less)[1] for name, less in lesser.items()})


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
