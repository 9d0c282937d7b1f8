"""Heads or layers by their worth: the score of a run without one after another."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bertc import Evaluation, LeftOut, Manner, evaluate_run, load


@dataclass(frozen=True)
class Worth:
    """The score of a run, and without each of its heads or layers, by name: 3.5, or 3.

    A score is the mean over tasks of their first metric, or the held-out loss of a run on text;
    ``figure`` names it.
    """

    run: Path
    part: Literal["head", "layer"]
    figure: str
    score: float
    without: dict[str, float]

    def as_json(self) -> str:
        """The scores as one JSON object."""
        return json.dumps({"schema": 1, **vars(self), "run": str(self.run)}, indent=1)

    def as_table(self) -> str:
        """A row a head or layer: how the score changes without it."""
        title = f"{self.run}: {self.figure} {self.score:.4f}; its change without each {self.part}"
        rows = (f"{name:>5} {score - self.score:+9.4f}" for name, score in self.without.items())
        return "\n".join((title, f"{self.part:>5}    change", *rows))


def worth(
    run: Path,
    part: Literal["head", "layer"],
    *,
    task: str = "",
    examples: int = 0,
    cache: Path | None = None,
    quiet: bool = False,
) -> Worth:
    """Evaluate a run whole, and without each of its heads (Michel et al. 2019, 3.2) or layers.

    ``task`` and ``examples`` are as in ``evaluate_run``. Layers that share their attention share
    their heads, which count once.

    Raises:
        MissingInputError, DataError, UsageError: as ``evaluate_run``.
    """
    manner = Manner(examples=examples)

    def score(heads: str = "", layers: str = "") -> tuple[str, float]:
        left_out = LeftOut(heads, layers)
        report = evaluate_run(run, manner, task=task, left_out=left_out, cache=cache, quiet=quiet)
        assert report.evaluation is not None, "an evaluation ends with one"
        return _figure(report.evaluation)

    (figure, complete), names = score(), _names(load(run).attention_heads, part)
    without = {name: score(**{f"{part}s": name})[1] for name in names}
    return Worth(run, part, figure, complete, without)


def _names(heads: Sequence[int], part: str) -> Iterator[str]:
    """Names of heads or layers, by the number of heads of each layer."""
    for layer, count in enumerate(heads):
        if part == "layer":
            yield str(layer)
        else:
            yield from (f"{layer}.{head}" for head in range(count))


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
