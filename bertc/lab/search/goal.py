"""The score that a search is for: its figure in the metrics, and whether more is better."""

from collections.abc import Iterable
from dataclasses import dataclass

from bertc import Resolved, UsageError
from bertc.lab.results.curves import Curves

LOSS = "loss"
ACCURACY = "accuracy"
EVALUATED = "eval"
KINDS = ("masked", "replaced", "visible")
"""Kinds of predicted positions, whose figures have names of their own."""


@dataclass(frozen=True)
class Goal:
    """A score by its name, ``mlm``, ``loss``, or part and metric with a dot between."""

    name: str
    more_is_better: bool

    def values(self, curves: Curves) -> list[float]:
        """The score at each evaluation so far."""
        figure = self.figure(curves.names)
        return curves.of(figure, "step")[1] if figure else []

    def figure(self, names: Iterable[str]) -> str:
        """Its name among figures, as ``curves`` has them; "" if none is of an evaluation."""
        figures = [name for name in names if name.startswith(f"{EVALUATED}/")]
        if not figures:
            return ""
        matching = [name for name in figures if self._names(name)]
        if len(matching) > 1 and f"{EVALUATED}/{LOSS}/{self.name}" in matching:
            matching = [f"{EVALUATED}/{LOSS}/{self.name}"]
        if len(matching) != 1:
            known = ", ".join(name.replace("/", ".").removeprefix("eval.") for name in figures)
            raise UsageError(
                f"{self.name} names {len(matching) or 'no'} scores of an evaluation",
                help=f"--for one of: {known}",
            )
        return matching[0]

    def _names(self, figure: str) -> bool:
        words = figure.split("/")[1:]
        named = self.name.split(".")
        return words == named if named == [LOSS] else words[-len(named) :] == named


def goal_of(name: str, resolved: Resolved) -> Goal:
    """The goal of a name, checked against the evaluations that a program will have.

    Of masked language modelling it is the score of masked positions.
    """
    stage = resolved.stages[-1]
    masks = [
        term
        for term in stage.objective
        if (masking := term.objective.masks) and masking.replace.mask
    ]
    parts = [f"{term.name}_{kind}" for term in masks for kind in KINDS]
    losses = [LOSS, *(term.name for term in stage.objective), *parts]
    metrics = list(dict.fromkeys(metric for task in stage.tasks for metric in task.metrics))
    first, last = name.split(".")[0], name.split(".")[-1]
    # Of a task and one of its parts, as sst2.dev.accuracy.
    of_part = name.count(".") > 1 and last in metrics
    titles = tuple(f"{task.title}." for task in stage.tasks)
    if last not in (*losses, *metrics) or (of_part and not name.startswith(titles)):
        parts = [f"{task.title}.dev.{metric}" for task in stage.tasks for metric in task.metrics]
        known = ", ".join([*metrics, *losses, *parts])
        raise UsageError(f"no evaluation has the score {name}", help=f"--for one of: {known}")
    more = last in metrics or (first == ACCURACY and last != ACCURACY)
    masked = f"{name}_masked"
    is_masked = masked.split(".")[-1] in parts or (masks and last == LOSS)
    return Goal(masked if is_masked else name, more)
