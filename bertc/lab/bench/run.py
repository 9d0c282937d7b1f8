"""``bertc bench``: training steps of specs and of other systems, timed in turns."""

import sys
from collections.abc import Sequence
from functools import partial

import torch

from bertc import Resolved, UsageError
from bertc.lab.bench.baseline import transformers
from bertc.lab.bench.contender import Contender, bertc
from bertc.lab.bench.measure import take_turns
from bertc.lab.bench.report import BenchReport
from bertc.lab_api import Stepper

BASELINE = "transformers"


def bench(
    *programs: Resolved, against: str | None = None, rounds: int = 7, compiled: bool = False
) -> BenchReport:
    """Time the first stage's step of programs on rows of random tokens; no text is read.

    Every contender takes one turn in every round. With ``compiled``, compiled forms are timed too.
    """
    steppers = [*map(Stepper, programs)]
    if against and programs[1:]:
        raise UsageError(f"{against} is timed next to one spec", help="leave --against out")
    if against not in (None, BASELINE):
        raise UsageError(f"cannot bench against {against}", help=f"--against {BASELINE}")
    make, stepper = partial(_contenders, steppers, bool(against), compiled), steppers[0]
    make()  # what has no model of this spec refuses it before the machine is measured

    before = stepper.matmul_rate()
    timings = take_turns(
        make, torch.device(stepper.plan.device), rounds, partial(print, file=sys.stderr)
    )
    matmul = max(before, stepper.matmul_rate())
    return BenchReport(timings, matmul, tuple(sys.argv[1:]))


def _contenders(
    steppers: Sequence[Stepper], with_baseline: bool, compiled: bool
) -> tuple[Contender, ...]:
    """bertc as a run would train here first, then the others."""
    ours = list[Contender]()
    for number, stepper in enumerate(steppers, 1):
        plan = stepper.plan
        title = f"bertc {plan.precision}" + f" ({number})" * bool(steppers[1:])
        ours.append(bertc(stepper, title + ", compiled" * plan.compile))
        if compiled and not plan.compile:
            ours.append(bertc(stepper.compiled, f"{title}, compiled"))
    return (*ours, *(transformers(steppers[0], compiled) if with_baseline else ()))
