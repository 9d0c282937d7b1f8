"""``bertc bench``: a spec's training step timed in turns with other systems."""

import sys
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, assert_never

import torch

from bertc import Resolved, UsageError
from bertc.cost.planning.plan import Plan
from bertc.lab.bench.baseline import transformers
from bertc.lab.bench.contender import Contender, bertc
from bertc.lab.bench.measure import take_turns
from bertc.lab.bench.report import BenchReport, Surroundings
from bertc.machine.display import choose
from bertc.machine.machine import detect, make_plan
from bertc.machine.profile import PROFILED_STEPS, profiling
from bertc.machine.speed import matmul_flops_per_second

Baseline = Literal["transformers"]
BASELINES: tuple[Baseline, ...] = ("transformers",)


def bench(
    resolved: Resolved,
    *,
    against: str | None = None,
    rounds: int = 7,
    compiled: bool = False,
    profile: Path | None = None,
    quiet: bool = False,
) -> BenchReport:
    """Time the first stage's step on rows of random tokens; no text is read.

    Every contender takes one turn in every round. With ``compiled``, compiled forms are timed too.
    ``profile`` is a folder for a profile of bertc's step, taken after the timing.

    Raises:
        UsageError: if ``against`` is no known system.
        MissingInputError: if it is not installed.
        DataError: if it has no model of this spec.
        MachineError: if the machine lacks the memory or the device.
    """
    plan = make_plan(resolved)
    resolved = resolved.as_in(resolved.stages[0])
    make = partial(_contenders, resolved, plan, _baseline(against), compiled)
    device = torch.device(plan.device)
    dtype = torch.bfloat16 if plan.precision == "bf16" else torch.float32

    with closing(choose(quiet)) as display:
        before = matmul_flops_per_second(device, dtype)
        timings = take_turns(make, device, rounds, display.note)
        matmul = max(before, matmul_flops_per_second(device, dtype))
        if profile is not None:
            display.note("profile of bertc's step")
            _profile(make()[0], device, profile)
    surroundings = Surroundings(detect(resolved.run.device), matmul, tuple(sys.argv[1:]))
    return BenchReport(resolved, plan, timings, surroundings)


def _baseline(name: str | None) -> Baseline | None:
    for known in BASELINES:
        if name == known:
            return known
    if name is None:
        return None
    raise UsageError(f"cannot bench against {name}", help=f"--against {' or '.join(BASELINES)}")


def _contenders(
    resolved: Resolved, plan: Plan, against: Baseline | None, compiled: bool
) -> tuple[Contender, ...]:
    """bertc as a run would train here first, then the others."""
    title = f"bertc {plan.precision}"
    ours = [bertc(resolved, plan, title + ", compiled" * plan.compile)]
    if compiled and not plan.compile:
        ours.append(bertc(resolved, replace(plan, compile=True), f"{title}, compiled"))
    match against:
        case None:
            return tuple(ours)
        case "transformers":
            return (*ours, *transformers(resolved, plan, compiled))
        case unreachable:
            assert_never(unreachable)


def _profile(contender: Contender, device: torch.device, folder: Path) -> None:
    with contender.open() as step, contender.turn(), profiling(folder, device) as step_is_done:
        for _ in range(PROFILED_STEPS):
            step()
            step_is_done()
