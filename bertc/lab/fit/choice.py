"""Programs of which one is chosen for a budget, as a table, as JSON, and as a spec."""

import json
from dataclasses import dataclass
from typing import Any

from bertc.lab.fit.budget import Budget
from bertc.lab.fit.candidate import SPENT, Candidate
from bertc.lab_api import Table, formatted, units

HELP = "a larger budget, or more settings left free: layers=? hidden=?"
SHOWN = 5
FEWEST_STEPS = 100
"""Steps below which a run learns next to nothing."""


@dataclass(frozen=True)
class Family:
    """A spec by name, and the tokens that it reads for each parameter."""

    name: str
    tokens_per_parameter: float


@dataclass(frozen=True)
class Choice:
    """Candidates within the budgets, the best first; without any those nearest to them.

    ``law`` is the spec whose ladder made the law that ranked them.
    ``source`` is the file or shipped spec that was given, ``searched``: its steps follow from a
    budget. With a ``family`` all use up the budget: the first is nearest to it, then come sizes.
    """

    budgets: tuple[Budget, ...]
    candidates: tuple[Candidate, ...]
    within: int
    tried: int
    refused: int
    source: str = ""
    searched: bool = False
    family: Family | None = None
    law: str = ""

    @property
    def fits(self) -> bool:
        """True if a candidate keeps within all budgets."""
        return self.within > 0

    def as_table(self) -> str:
        """The best candidates with their figures, and why the first; its spec below."""
        if self.family or self.law:
            return self._by_size()
        head = [*(budget.kind for budget in self.budgets), ""]
        rows = [[*(budget.text(budget.most) for budget in self.budgets), "the budget"]]
        for candidate in self.candidates[:SHOWN]:
            cells = [
                f"{budget.text(candidate.figures[budget.kind])} ({_share_text(share)})"
                for budget, share in zip(self.budgets, candidate.shares(self.budgets), strict=True)
            ]
            rows.append([*cells, self._name(candidate)])
        return f"{Table(head, rows)}\n\n{self._reason()}"

    def _by_size(self) -> str:
        """The sizes with their steps and what the choice is by, and which of them is taken."""
        middle = ("loss, expected", "time") if self.law else ("tokens a parameter",)
        rows = list[tuple[str, ...]]()
        for one in sorted(self.candidates, key=lambda one: one.parameters):
            cells: tuple[str, ...] = (_digits(one.tokens_per_parameter),)
            if self.law:
                cells = (str(one.expected), units.duration_text(one.figures["time"]))
            chosen = "  <- the spec" * (self.fits and one is self.candidates[0])
            size, steps = units.count_text(one.parameters), f"{one.resolved.steps:,}"
            rows.append((size, steps, *cells, f"{one.program.name}{chosen}"))
        return f"{Table(('parameters', 'steps', *middle, ''), rows)}\n\n{self._reason()}"

    def spec(self) -> str:
        """The best candidate as a spec, after what it came from."""
        comment = f"# {self.source}\n" if self.source else ""
        return comment + formatted(self.candidates[0].program)

    def _name(self, candidate: Candidate) -> str:
        name = "" if candidate.program.name == self.source else candidate.program.name
        steps = f"steps={candidate.resolved.steps}" if self.searched else ""
        return f"{name} {steps}".strip()

    def _reason(self) -> str:
        if self.family:
            spends = (budget for budget in self.budgets if budget.kind in SPENT)
            spent = " or ".join(f"--{b.kind} {b.text(b.most)}" for b in spends)
            known = f"{_digits(self.family.tokens_per_parameter)} of {self.family.name}"
            return (
                f"{self.tried:,} shapes tie: each has steps for all of {spent}. Of those that read "
                "more tokens\nthan any larger one that is taken whose tokens a parameter are "
                f"nearest to the {known}{self._remark()}"
            )
        if self.law and self.fits:
            return f"{self.tried:,} sizes, by the law of {self.law}"
        if self.law:
            limits = "the budget, the loss and 30 times the ladder"
            return f"none of {self.tried:,} is within {limits}\nhelp: {HELP}; or a longer ladder"
        refused = f", {self.refused:,} others are no programs" if self.refused else ""
        if self.fits and self.searched and self.tried > 1:
            return f"the largest of {self.tried:,} within --params{refused}{self._remark()}"
        if self.fits:
            first = next((budget.kind for budget in self.budgets if budget.kind != "memory"), "")
            uses = f"uses the most of --{first}" if first else "has the most parameters"
            fit = f"{self.within:,} of {self.tried:,} fit{refused}"
            return f"{fit}; the first {uses}{self._remark()}"
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
            "family": self.family and vars(self.family),
            "law": self.law,
            "candidates": [
                {
                    "name": candidate.program.name, "steps": candidate.resolved.steps,
                    "tokens_per_parameter": candidate.tokens_per_parameter, **candidate.figures,
                    **({"expected": candidate.expected._asdict()} if candidate.expected else {}),
                    "spec": formatted(candidate.program),
                }
                for candidate in self.candidates[: None if self.family or self.law else SHOWN]
            ],
        }  # fmt: skip
        return json.dumps(facts, indent=2)


def _digits(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def _share_text(share: float) -> str:
    return f"{share:.1%}" if share < 10 else f"{share:,.0f} times"
