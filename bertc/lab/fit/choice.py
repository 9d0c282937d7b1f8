"""Programs of which one is chosen for a budget, as a table, as JSON, and as a spec."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bertc import Program, Resolved, formatted
from bertc.lab.fit.budget import Budget

SPENT = ("flops", "time")
"""Budgets that every step takes from."""
HELP = "a larger budget, or more settings left free: layers=? hidden=?"
SHOWN = 5
FEWEST_STEPS = 100
"""Steps below which a run learns next to nothing."""


@dataclass(frozen=True)
class Candidate:
    """A program, what it was written as, and its figures by kind of budget."""

    program: Program
    resolved: Resolved
    figures: Mapping[str, float]
    parameters: int

    def used(self, budgets: Sequence[Budget]) -> tuple[float, ...]:
        """The order of candidates within all budgets, more is better."""
        spent = [budget for budget in budgets if budget.kind != "memory"]
        return (*self.shares(spent), self.parameters)

    def shares(self, budgets: Sequence[Budget]) -> tuple[float, ...]:
        """Its share of each budget: 1 uses all of it."""
        return tuple(self.figures[budget.kind] / budget.most for budget in budgets)


@dataclass(frozen=True)
class Choice:
    """Candidates within the budgets, the best first; without any those nearest to them.

    ``source`` is the file or shipped spec that was given, ``searched``: its steps follow from a
    budget.
    """

    budgets: tuple[Budget, ...]
    candidates: tuple[Candidate, ...]
    within: int
    tried: int
    refused: int
    source: str
    searched: bool

    @property
    def fits(self) -> bool:
        """True if a candidate keeps within all budgets."""
        return self.within > 0

    def as_table(self) -> str:
        """The best candidates with their figures, and why the first; its spec below."""
        head = [*(budget.kind for budget in self.budgets), ""]
        rows = [head, [*(budget.text(budget.most) for budget in self.budgets), "the budget"]]
        for candidate in self.candidates[:SHOWN]:
            cells = [
                f"{budget.text(candidate.figures[budget.kind])} ({_share_text(share)})"
                for budget, share in zip(self.budgets, candidate.shares(self.budgets), strict=True)
            ]
            rows.append([*cells, self._named(candidate)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ("  ".join((*map(str.rjust, row[:-1], widths), row[-1])).rstrip() for row in rows)
        return "\n".join((*table, "", self._reason()))

    def spec(self) -> str:
        """The best candidate as a spec, after what it came from."""
        comment = f"# {self.source}\n" if self.source else ""
        return comment + formatted(self.candidates[0].program)

    def _named(self, candidate: Candidate) -> str:
        name = "" if candidate.program.name == self.source else candidate.program.name
        steps = f"steps={candidate.resolved.steps}" if self.searched else ""
        return f"{name} {steps}".strip()

    def _reason(self) -> str:
        refused = f", {self.refused:,} others are no programs" if self.refused else ""
        if self.fits:
            first = next((budget.kind for budget in self.budgets if budget.kind != "memory"), "")
            uses = f"uses the most of --{first}" if first else "has the most parameters"
            return (
                f"{self.within:,} of {self.tried:,} fit{refused}; the first {uses}{self._remark()}"
            )
        shares = self.candidates[0].shares(self.budgets)
        over = (
            f"--{budget.kind} {share:,.2f} times"
            for budget, share in zip(self.budgets, shares, strict=True)
            if share > 1
        )
        nearest = f"the nearest takes {', '.join(over)}"
        return f"none of {self.tried:,} fits{refused}; {nearest}\nhelp: {HELP}"

    def _remark(self) -> str:
        """A line on a best candidate that is hardly trained."""
        steps = self.candidates[0].resolved.steps
        if not self.searched or steps >= FEWEST_STEPS:
            return ""
        kinds = " and ".join(f"--{budget.kind}" for budget in self.budgets if budget.kind in SPENT)
        return f"\nremark: {kinds} leave it {steps:,} steps; give more, or a smaller spec"

    def as_json(self) -> str:
        """Budgets and the best candidates, figures as plain numbers."""
        facts: dict[str, Any] = {
            "schema": 1,
            "fits": self.fits,
            "tried": self.tried,
            "within": self.within,
            "refused": self.refused,
            "budgets": {budget.kind: budget.most for budget in self.budgets},
            "candidates": [
                {
                    "name": candidate.program.name,
                    **candidate.figures,
                    "spec": formatted(candidate.program),
                }
                for candidate in self.candidates[:SHOWN]
            ],
        }
        return json.dumps(facts, indent=2)


def _share_text(share: float) -> str:
    return f"{share:.1%}" if share < 10 else f"{share:,.0f} times"
