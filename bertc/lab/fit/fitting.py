"""Settings chosen for a budget of parameters, FLOPs, time or memory. Loads no torch.

Every value of the free settings makes a candidate, which is estimated. Of those within all budgets
the one is taken that uses the most of the first budget, then of the second, and so on. Memory is
a limit alone, since micro-batches fill what there is: within it the most parameters are taken.
With free steps all sizes use up FLOPs or time: see sizes.py.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bertc import UsageError
from bertc.lab.fit.budget import UNITS, Budget
from bertc.lab.fit.by_law import choose_by_law
from bertc.lab.fit.candidate import SPENT, Target, candidate
from bertc.lab.fit.choice import Choice
from bertc.lab.fit.sizes import choose_with_steps, resolvable
from bertc.lab.forecast.sealed import Forecast
from bertc.lab_api import Program, programs, spec_text

STEPS = "steps"
CANDIDATES: Mapping[str, tuple[int, ...]] = {
    "layers": (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 28, 32, 36, 40, 48),
    "hidden": tuple(range(64, 1088, 64)) + (1152, 1280, 1408, 1536, 1664, 1792, 2048),
    "embedding": (32, 64, 128, 256, 512),
    "seq": (64, 128, 256, 512, 1024, 2048, 4096, 8192),
    "batch": tuple(1 << power for power in range(3, 15)),
}
"""Values of ``NAME=?``; those of ``steps=?`` follow from the budget."""
WIDTH_PER_LAYER = (32, 128)
"""Least and most of hidden / layers where both are ``?``; BERT's sizes have 43 to 128."""
FREE = re.compile(r"\b(\w+)\s*=\s*\?")
ALIASES = {"E": "embedding"}


def choose(
    spec: str, budgets: Sequence[Budget], overrides: Sequence[str] = (), device: str = "h200",
    devices: int = 1, law: Forecast | None = None, loss: float = 0.0,
) -> Choice:  # fmt: skip
    """Choose the values of free settings: lists in braces, and ``NAME=?`` for the usual ones.

    By a ``law`` those with the lowest expected loss, or with the least time to a ``loss``.
    """
    if loss and law is None:
        raise UsageError("--loss needs a law", help="bertc forecast SPEC makes one: --law FILE")
    if not budgets and not loss:
        raise UsageError(
            "there is no budget",
            help="--params 14M, or " + ", ".join(f"--{k}" for k in UNITS if k != "params"),
        )
    content = spec_text(spec)
    written = content if FREE.search(content) or spec == "-" else spec
    text, free = _with_candidates(written, overrides, budgets, free_steps=bool(loss))
    both = {"layers", "hidden"} <= free
    tried = [program for program in programs(*text) if not both or _usual(program)]
    if len(tried) == 1 and not free:
        raise UsageError(
            "nothing is free: the spec is one program",
            help='layers=?, hidden=?, steps=?, or a list: "layers={2, 4, 6}"',
        )
    target = Target(tuple(budgets), device, devices, loss, SPENT if law else ())
    if law:
        choice = choose_by_law(tried, target, law, free_steps=STEPS in free)
    else:
        choice = (choose_with_steps if STEPS in free else choose_among)(tried, target)
    return replace(choice, source="" if content == spec else spec)


def choose_among(programs: Sequence[Program], target: Target) -> Choice:
    """Choose among programs."""
    known, mistakes = resolvable(programs)
    candidates = [candidate(*one, target) for one in known]
    budgets = target.budgets
    within = [one for one in candidates if max(one.shares(budgets)) <= 1]
    best = sorted(within, key=lambda one: one.used(budgets), reverse=True)
    shown = best or sorted(candidates, key=lambda one: max(one.shares(budgets)))
    return Choice(budgets, tuple(shown), len(within), len(candidates), len(mistakes))


def _with_candidates(
    spec: str, overrides: Sequence[str], budgets: Sequence[Budget], *, free_steps: bool
) -> tuple[tuple[str, list[str]], set[str]]:
    """The spec and overrides with a list for each ``NAME=?``, and these names."""
    names = set[str]()

    def listed(match: re.Match[str]) -> str:
        name = ALIASES.get(match[1], match[1])
        names.add(name)
        if name == STEPS:
            return f"{STEPS}=1000"
        if name not in CANDIDATES:
            raise UsageError(
                f"{match[0]}: there are no usual values of `{match[1]}`",
                help=f"a list in braces; ? is for {', '.join((*CANDIDATES, STEPS))}",
            )
        return f"{match[1]}={{{', '.join(map(str, CANDIDATES[name]))}}}"

    with_lists = FREE.sub(listed, spec), [FREE.sub(listed, override) for override in overrides]
    if STEPS in names and not (free_steps or {*SPENT} & {budget.kind for budget in budgets}):
        raise UsageError(
            "steps=? needs a budget that steps spend", help="--flops 1e18 or --time 8h"
        )
    return with_lists, names


def _usual(program: Program) -> bool:
    """True for the shapes of this family: neither one wide layer nor fifty narrow ones."""
    hidden, layers = (program.settings[name].value for name in ("hidden", "layers"))
    least, most = WIDTH_PER_LAYER
    return bool(least <= hidden / layers <= most)
