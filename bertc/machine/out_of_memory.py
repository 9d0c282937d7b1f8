"""Errors for memory that runs out: in the middle of a step, and foreseen before the first."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch

from bertc.base.diagnostics import MachineError
from bertc.cost import largest_microbatches, layout_on
from bertc.cost.memory import USABLE
from bertc.cost.planning.plan import Machine, Plan, largest_divisor
from bertc.cost.planning.world import World
from bertc.cost.units import bytes_text
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage

WORDS = ("DefaultCPUAllocator", "out of memory", "ALLOC_FAILED")
"""Words of RuntimeErrors of the CPU's allocator, of CUDA outside its own, and of BLAS libraries."""

BEYOND = 1.25
"""Estimated memory over what is free from which a plan is refused.

Estimates are a few percent off at most (docs/estimates.md), and other processes may free some.
"""


def refuse_what_cannot_fit(resolved: Resolved, plan: Plan, machine: Machine, world: World) -> None:
    """Refuse micro-batches that would not even fit in ``BEYOND`` times the memory."""
    laid_out, most = layout_on(resolved, machine.memory_bytes, world), machine.memory_bytes * BEYOND
    more = replace(machine, memory_bytes=int(most / USABLE[machine.device]))
    beyond = largest_microbatches(resolved, more, laid_out)
    for stage, size, most_there in zip(resolved.stages, plan.microbatches, beyond, strict=True):
        if size > max(1, most_there.examples):
            fits = largest_microbatches(resolved, machine, laid_out)
            batch = math.gcd(*(part.batch for part in resolved.stages))
            smaller = largest_divisor(batch, max(1, min(fit.examples for fit in fits)))
            raise MachineError(
                f"stage {stage.name}: {size:,} examples of {stage.seq} tokens at once do not fit "
                f"in {bytes_text(machine.memory_bytes)}, which are free on this machine",
                help=f"--set microbatch={smaller}: the same batch in smaller parts",
            )


def is_out_of_memory(error: BaseException) -> bool:
    """True if an error means that the device or the main memory is full."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in WORDS)


def out_of_memory(stage: Stage, micro: int, rehearse: Callable[[int], None] | None) -> MachineError:
    """The error with the largest micro-batch below ``micro`` that fits."""
    smaller = [n for n in range(micro - 1, 0, -1) if stage.batch % n == 0]
    rows = next((n for n in smaller if rehearse is None or _fits(rehearse, n)), 0)
    what = f"stage {stage.name}: {micro} examples of {stage.seq} tokens at once do not fit"
    if not rows:
        return MachineError(
            f"{what}, nor does one", help="a smaller model, a shorter seq, or a larger device"
        )
    does = "do" if rehearse else "might"
    return MachineError(
        f"{what} in memory; {rows} {does}", help=f"--resume --set microbatch={rows}"
    )


def _fits(rehearse: Callable[[int], None], rows: int) -> bool:
    try:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        rehearse(rows)
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            return False
        raise
    return True
