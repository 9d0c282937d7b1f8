"""Budgets, and programs that are tried for one: figures, and steps where these are free."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from bertc import Resolved, SpecError, UsageError, estimate
from bertc.lab_api import Expected, Program, most_steps, points, units

UNITS: Mapping[str, Mapping[str, float]] = {
    "params": {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "B": 1e9},
    "flops": {"": 1, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21},
    "time": {"s": 1, "min": 60, "h": 3600, "d": 86_400, "days": 86_400},
    "memory": {"MiB": 2**20, "GiB": 2**30, "MB": 1e6, "GB": 1e9},
}
EXAMPLES = {"params": "14M", "flops": "1e18", "time": "8h", "memory": "16GiB"}
TEXTS = {
    "params": units.count_text,
    "flops": units.flops_text,
    "time": units.duration_text,
    "memory": units.bytes_text,
}


@dataclass(frozen=True)
class Budget:
    """The most that one figure may be, in parameters, FLOPs, seconds or bytes."""

    kind: str
    most: float

    def text(self, value: float) -> str:
        """A figure of this kind with its unit."""
        return TEXTS[self.kind](value)


def budget(kind: str, text: str) -> Budget:
    """Read ``14M``, ``1e18``, ``8h`` or ``16GiB``."""
    units = UNITS[kind]
    match = re.fullmatch(r"([\d.]+(?:e[+-]?\d+)?)\s*(\D*)", text.strip().replace(",", ""))
    unit = match[2].removesuffix("FLOP") if match and kind == "flops" else match and match[2]
    try:
        most = float(match[1]) * units[unit or ""] if match else 0.0
    except (KeyError, ValueError):
        most = 0.0
    if not 0 < most < float("inf"):
        known = ", ".join(filter(None, units))
        raise UsageError(
            f"--{kind} {text[:60]}: not a number with a unit ({known})",
            help=f"--{kind} {EXAMPLES[kind]}",
        )
    return Budget(kind, most)


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
