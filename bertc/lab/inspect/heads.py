"""Heads by their worth: the score of a run without one after another."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from bertc.lab_api import evaluate_heads


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
    figures = [
        _mean_of_first(e.scores)
        or (("held-out loss", e.loss) if e.loss_masked is None
            else ("held-out loss, masked", e.loss_masked))
        for e in (complete, *lesser.values())
    ]  # fmt: skip
    (figure, score), *others = figures
    without = {name: less for name, (_, less) in zip(lesser, others, strict=True)}
    return Worth(run, figure, score, without)


def _mean_of_first(
    scores: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> tuple[str, float] | None:
    """The mean over tasks and parts of the first metric; None where there is no task."""
    metrics = [metrics for parts in scores.values() for metrics in parts.values()]
    firsts = [next(iter(metrics.items())) for metrics in metrics]
    if not firsts:
        return None
    return " and ".join(dict.fromkeys(name for name, _ in firsts)), fmean(v for _, v in firsts)
