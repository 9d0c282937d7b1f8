"""Masks whose share falls from step to step, as an argument of a term of the objective says."""

from typing import Any

from bertc.ir.methods.method import Method
from bertc.ir.rules import Rule, Rules
from bertc.ir.terms.masking import Masks


class FallingMasks(Method):
    """Terms with ``p_end``, whose share of masked tokens falls to that over the steps."""

    setting = "objective"
    rules = Rules(timed=(
        Rule("E329", "objective", lambda s: True,
             "p_end falls by steps, and a time does not say how many there are: leave it out"),
    ))  # fmt: skip

    @property
    def text(self) -> str:
        return "p_end"

    def terms_between(self, terms: Any, begin: float, end: float) -> Any:
        return tuple(
            term.model_copy(update={"objective": term.objective.between(begin, end)})
            if isinstance(term.objective, Masks)
            else term
            for term in terms
        )

    def extent(self, done: int, steps: int) -> float:
        return done / steps


def falls(terms: Any) -> bool:
    """True if the share of masked tokens of a term falls from step to step."""
    return any(isinstance(t.objective, Masks) and t.objective.p_end for t in terms)
