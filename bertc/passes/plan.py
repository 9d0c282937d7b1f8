"""How a resolved program runs on a given machine: device, precision, micro-batches, compilation."""

import math
from dataclasses import dataclass
from typing import Literal

from bertc.diagnostics import MachineError
from bertc.ir.resolved import Resolved, Stage
from bertc.passes.world import ALONE, Layout, Strategy, World

COMPILE_STEPS_CPU = 2000
"""Compiling the step costs about a minute on a CPU; shorter runs do not earn it back."""


@dataclass(frozen=True)
class Machine:
    """What decides a plan. ``memory_bytes`` is the device's, or on a CPU the free main memory that
    falls to one process.
    """

    device: Literal["cpu", "cuda"]
    name: str
    memory_bytes: int
    fast_bf16: bool
    cores: int


@dataclass(frozen=True)
class Plan:
    """What will be done where. ``microbatches`` has one entry a stage, in examples of a process."""

    device: Literal["cpu", "cuda"]
    precision: Literal["fp32", "bf16"]
    microbatches: tuple[int, ...]
    compile: bool
    reasons: tuple[str, ...]
    processes: int = 1
    strategy: Strategy = "single"


def plan(
    resolved: Resolved, machine: Machine, microbatches: tuple[int, ...], layout: Layout = ALONE
) -> Plan:
    """Decide what ``auto`` leaves open. ``microbatches`` are the largest that fit, one a stage.

    Raises:
        MachineError: if the spec asks for a device that the machine has not, or for a compiled step
            whose weights are sharded.
    """
    run = resolved.run
    if run.device != "auto" and run.device != machine.device:
        raise MachineError(
            f"device={run.device} was asked for, but this machine offers {machine.device}",
            help=f"--set device={machine.device}",
        )
    reasons = [layout.reason] if layout.reason else []
    if run.precision == "auto":
        precision: Literal["fp32", "bf16"] = "bf16" if machine.fast_bf16 else "fp32"
        reasons.append(
            f"{precision}: {machine.name} has {'' if machine.fast_bf16 else 'no '}fast bf16"
        )
    else:
        precision = run.precision
    compiled = run.compile == "on"
    if layout.sharded:
        if compiled:
            raise MachineError(
                f"compile=on: parts sharded by {layout.strategy} are fetched between layers, which "
                "one compiled step cannot do",
                help="compile=auto or strategy=ddp",
            )
        reasons.append("compile=off: sharded parts are fetched between layers")
    elif run.compile == "auto":
        compiled = machine.device == "cuda" or resolved.steps >= COMPILE_STEPS_CPU
        reasons.append(
            f"compile={'on' if compiled else 'off'}: {resolved.steps} steps "
            f"{'repay' if compiled else 'would not repay'} the time it takes on {machine.device}"
        )
    chosen = tuple(
        _microbatch(stage, largest, layout.world)
        for stage, largest in zip(resolved.stages, microbatches, strict=True)
    )
    return Plan(
        machine.device,
        precision,
        chosen,
        compiled,
        tuple(reasons),
        layout.world.size,
        layout.strategy,
    )


def _microbatch(stage: Stage, largest: int, world: World) -> int:
    """The stage's own, or the largest divisor of a share that fits, so that all are equal."""
    if stage.microbatch:
        return min(stage.microbatch, world.share(stage.batch))
    if largest < 1:
        raise MachineError(
            f"stage {stage.name}: not even one example of {stage.seq} tokens fits in memory",
            help="a smaller model, a shorter seq, or a larger device",
        )
    return largest_divisor(world.share(stage.batch), largest)


def largest_divisor(batch: int, limit: int) -> int:
    """The most examples at once that cut a batch into equal parts; at least 1."""
    found = 1
    for small in range(1, math.isqrt(batch) + 1):
        if batch % small == 0:
            found = max([found, *(size for size in (small, batch // small) if size <= limit)])
    return found
