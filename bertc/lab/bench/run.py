"""``bertc bench``: a spec's training step timed in turns with other systems."""

import sys
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
    resolved: Resolved,
    *,
    against: str | None = None,
    rounds: int = 7,
    compiled: bool = False,
    quiet: bool = False,
) -> BenchReport:
    """Time the first stage's step on rows of random tokens; no text is read.

    Every contender takes one turn in every round. With ``compiled``, compiled forms are timed too.

    Raises:
        UsageError: if ``against`` is no known system.
        MissingInputError: if it is not installed.
        DataError: if it has no model of this spec.
        MachineError: if the machine lacks the memory or the device.
    """
    stepper = Stepper(resolved)
    make = partial(_contenders, stepper, _baseline(against), compiled)
    make()  # what has no model of this spec refuses it before the machine is measured

    def say(line: str) -> None:
        if not quiet:
            print(line, file=sys.stderr, flush=True)

    before = stepper.matmul_rate()
    timings = take_turns(make, torch.device(stepper.plan.device), rounds, say)
    matmul = max(before, stepper.matmul_rate())
    return BenchReport(stepper, timings, Surroundings(matmul, tuple(sys.argv[1:])))


def _baseline(name: str | None) -> Baseline | None:
    for known in BASELINES:
        if name == known:
            return known
    if name is None:
        return None
    raise UsageError(f"cannot bench against {name}", help=f"--against {' or '.join(BASELINES)}")


def _contenders(stepper: Stepper, rival: Baseline | None, compiled: bool) -> tuple[Contender, ...]:
    """bertc as a run would train here first, then the others."""
    plan = stepper.plan
    title = f"bertc {plan.precision}"
    ours = [bertc(stepper, title + ", compiled" * plan.compile)]
    if compiled and not plan.compile:
        ours.append(bertc(stepper.compiled, f"{title}, compiled"))
    match rival:
        case None:
            return tuple(ours)
        case "transformers":
            return (*ours, *transformers(stepper, compiled))
        case unreachable:
            assert_never(unreachable)
