"""How a resolved program runs on a given machine: device, precision, micro-batches, compilation."""

import math
from dataclasses import dataclass
from typing import Literal

from bertc.diagnostics import MachineError
from bertc.ir.resolved import Resolved, Stage


@dataclass(frozen=True)
class Machine:
    """What decides a plan. ``memory_bytes`` is the device's, or the free main memory on a CPU."""

    device: Literal["cpu", "cuda"]
    name: str
    memory_bytes: int
    fast_bf16: bool
    cores: int


@dataclass(frozen=True)
class Plan:
    """What will be done where. ``microbatches`` has one entry a stage, in examples."""

    device: Literal["cpu", "cuda"]
    precision: Literal["fp32", "bf16"]
    microbatches: tuple[int, ...]
    compile: bool
    reasons: tuple[str, ...]


def plan(resolved: Resolved, machine: Machine, microbatches: tuple[int, ...]) -> Plan:
    """Decide what ``auto`` leaves open. ``microbatches`` are the largest that fit, one a stage.

    Raises:
        MachineError: if the spec asks for a device that the machine has not.
    """
    run = resolved.run
    if run.device != "auto" and run.device != machine.device:
        raise MachineError(
            f"device={run.device} was asked for, but this machine offers {machine.device}",
            help=f"--set device={machine.device}",
        )
    reasons = []
    if run.precision == "auto":
        precision: Literal["fp32", "bf16"] = "bf16" if machine.fast_bf16 else "fp32"
        reasons.append(
            f"{precision}: {machine.name} has {'' if machine.fast_bf16 else 'no '}fast bf16"
        )
    else:
        precision = run.precision
    compiled = run.compile == "on"
    if run.compile == "auto":
        # On a CPU the step's own dropout and losses are as fast or faster (docs/performance.md).
        compiled = machine.device == "cuda"
        reasons.append(
            "compile=on: on cuda a compiled step is faster"
            if compiled
            else "compile=off: on a CPU a compiled step is not faster"
        )
    chosen = tuple(
        _microbatch(stage, largest)
        for stage, largest in zip(resolved.stages, microbatches, strict=True)
    )
    return Plan(machine.device, precision, chosen, compiled, tuple(reasons))


def _microbatch(stage: Stage, largest: int) -> int:
    """The stage's own, or the largest divisor of the batch that fits, so that all are equal."""
    if stage.microbatch:
        return stage.microbatch
    if largest < 1:
        raise MachineError(
            f"stage {stage.name}: not even one example of {stage.seq} tokens fits in memory",
            help="a smaller model, a shorter seq, or a larger device",
        )
    return largest_divisor(stage.batch, largest)


def largest_divisor(batch: int, limit: int) -> int:
    """The most examples at once that cut a batch into equal parts; at least 1."""
    found = 1
    for small in range(1, math.isqrt(batch) + 1):
        if batch % small == 0:
            found = max([found, *(size for size in (small, batch // small) if size <= limit)])
    return found
