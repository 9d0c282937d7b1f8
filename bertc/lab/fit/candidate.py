"""A program that is tried for a budget: its figures, and its steps where these are free."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from bertc import Resolved, SpecError, estimate
from bertc.lab.fit.budget import Budget
from bertc.lab_api import Expected, Program, most_steps, points

SPENT = ("flops", "time")
"""Budgets that every step takes from."""


@dataclass(frozen=True)
class Target:
    """Budgets, and the devices that time and memory are estimated for.

    ``loss``: to be reached at the least cost, where a law is known; 0 without one.
    """

    budgets: tuple[Budget, ...]
    device: str
    devices: int
    loss: float = 0.0
    shown: tuple[str, ...] = ()

    @property
    def spent(self) -> list[Budget]:
        """The budgets that steps take from."""
        return [budget for budget in self.budgets if budget.kind in SPENT]

    def refuses(self, other: "Candidate") -> bool:
        """True if a budget that steps do not take from is too small."""
        others = [budget for budget in self.budgets if budget.kind not in SPENT]
        return max((0.0, *other.shares(others))) > 1


@dataclass(frozen=True)
class Candidate:
    """A program, what it was written as, and its figures by kind of budget.

    ``expected`` is its loss by a law.
    """

    program: Program
    resolved: Resolved
    figures: Mapping[str, float]
    parameters: int
    expected: Expected | None = None

    def used(self, budgets: Sequence[Budget]) -> tuple[float, ...]:
        """The order of candidates within all budgets, more is better."""
        spent = [budget for budget in budgets if budget.kind != "memory"]
        return (*self.shares(spent), self.parameters)

    def shares(self, budgets: Sequence[Budget]) -> tuple[float, ...]:
        """Its share of each budget: 1 uses all of it."""
        return tuple(self.figures[budget.kind] / budget.most for budget in budgets)

    @property
    def tokens_per_parameter(self) -> float:
        """Tokens that it reads, padding included, for each parameter."""
        return tokens_of(self.resolved) / self.parameters


def tokens_of(resolved: Resolved) -> float:
    """The tokens that a program reads, padding included."""
    return sum(stage.steps * stage.tokens_per_step for stage in resolved.stages)


def candidate(program: Program, resolved: Resolved, target: Target) -> Candidate:
    """A program with its figures."""
    most = min((b.most for b in target.budgets if b.kind == "memory"), default=inf)
    estimated = estimate(resolved, target.device, devices=target.devices, memory_bytes=most)
    every = {
        "params": estimated.parameters.total, "flops": estimated.flops.train_total,
        "time": estimated.time.seconds_total, "memory": estimated.memory.peak_bytes,
    }  # fmt: skip
    kinds = dict.fromkeys((*(budget.kind for budget in target.budgets), *target.shown))
    figures = {kind: every[kind] for kind in kinds}
    return Candidate(program, resolved, figures, estimated.parameters.total)


def longest(sized: Candidate, target: Target) -> Candidate:
    """The candidate with the most steps within the budgets, or one; as it is if others are over."""
    if target.refuses(sized):
        return sized
    tried: dict[int, Candidate] = {}

    def share(steps: int) -> float:
        program = sized.program.with_values(steps=steps)
        try:
            (resolved,) = points(program)
        except SpecError:  # of a number of steps that its other settings have no room for
            return inf
        tried[steps] = candidate(program, resolved, target)
        return max(tried[steps].shares(target.spent))

    # Figures grow with steps nearly evenly.
    guess = sized.resolved.steps / max(sized.shares(target.spent))
    steps = most_steps(share, 1.0, max(1, int(guess)))
    return tried.get(steps) or sized
