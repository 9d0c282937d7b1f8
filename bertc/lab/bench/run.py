"""``bertc bench``: training steps of specs and of other systems, timed in turns."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Literal, assert_never

import torch

from bertc import Resolved, UsageError
from bertc.lab.bench.baseline import transformers
from bertc.lab.bench.contender import Contender, bertc
from bertc.lab.bench.measure import take_turns
from bertc.lab.bench.report import BenchReport, Surroundings
from bertc.lab_api import Stepper

Baseline = Literal["transformers"]
BASELINES: tuple[Baseline, ...] = ("transformers",)


def bench(
    *programs: Resolved,
    against: str | None = None,
    rounds: int = 7,
    compiled: bool = False,
    quiet: bool = False,
) -> BenchReport:
    """Time the first stage's step of programs on rows of random tokens; no text is read.

    Every contender takes one turn in every round. With ``compiled``, compiled forms are timed too.
    """
    steppers = [*map(Stepper, programs)]
    if against and programs[1:]:
        raise UsageError(f"{against} is timed next to one spec", help="leave --against out")
    make, stepper = partial(_contenders, steppers, _baseline(against), compiled), steppers[0]
    make()  # what has no model of this spec refuses it before the machine is measured

    def say(line: str) -> None:
        if not quiet:
            print(line, file=sys.stderr, flush=True)

    before = stepper.matmul_rate()
    timings = take_turns(make, torch.device(stepper.plan.device), rounds, say)
    matmul = max(before, stepper.matmul_rate())
    return BenchReport(timings, Surroundings(matmul, tuple(sys.argv[1:])))


def _baseline(name: str | None) -> Baseline | None:
    for known in BASELINES:
        if name == known:
            return known
    if name is None:
        return None
    raise UsageError(f"cannot bench against {name}", help=f"--against {' or '.join(BASELINES)}")


def _contenders(
    steppers: Sequence[Stepper], rival: Baseline | None, compiled: bool
) -> tuple[Contender, ...]:
    """bertc as a run would train here first, then the others."""
    ours = list[Contender]()
    for number, stepper in enumerate(steppers, 1):
        plan = stepper.plan
        title = f"bertc {plan.precision}" + f" ({number})" * bool(steppers[1:])
        ours.append(bertc(stepper, title + ", compiled" * plan.compile))
        if compiled and not plan.compile:
            ours.append(bertc(stepper.compiled, f"{title}, compiled"))
    match rival:
        case None:
            return tuple(ours)
        case "transformers":
            return (*ours, *transformers(steppers[0], compiled))
        case unreachable:
            assert_never(unreachable)
