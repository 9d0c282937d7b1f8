"""Memory: heap (glibc), resident pages (Linux), peak; errors where it runs out, or would."""

import ctypes
import math
import platform
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import torch

from bertc.base.diagnostics import MachineError
from bertc.cost import World, largest_microbatches, layout_on
from bertc.cost.memory import USABLE
from bertc.cost.planning.plan import Machine, Plan, largest_divisor
from bertc.cost.units import bytes_text
from bertc.ir.program import Resolved, Stage

# mallopt(3), and its defaults.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_NEVER, _TRIM_DEFAULT, _MMAP_DEFAULT = -1, 128 * 1024, 65_536
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
WORDS = ("DefaultCPUAllocator", "out of memory", "ALLOC_FAILED")
"""Words of RuntimeErrors of the CPU's allocator, of CUDA outside its own, and of BLAS libraries."""
BEYOND = 1.25
"""Estimated memory over what is free from which a plan is refused.

Estimates are a few percent off at most (docs/estimates.md), and other processes may free some."""


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Keep freed memory in this process inside this block; does nothing without glibc.

    A step on a CPU frees and takes hundreds of megabytes. Mapping them anew costs BERT-base 97,000
    page faults a step, 5 to 9% of its time.
    """
    if (libc := _glibc()) is None:
        yield
        return
    libc.mallopt(_MMAP_MAX, 0)
    libc.mallopt(_TRIM_THRESHOLD, _NEVER)
    try:
        yield
    finally:
        libc.mallopt(_MMAP_MAX, _MMAP_DEFAULT)
        libc.mallopt(_TRIM_THRESHOLD, _TRIM_DEFAULT)
        libc.malloc_trim(0)


def _status_bytes(field: str) -> int:
    lines = _STATUS.read_text().splitlines()
    return next((int(n.split()[1]) * 1024 for n in lines if n.startswith(f"{field}:")), 0)


def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None


def begin_peak(device: torch.device) -> int:
    """Unmap freed memory, reset the peak; the bytes in use now, 0 if no peak can be had."""
    if libc := _glibc():
        libc.malloc_trim(0)
    with suppress(OSError):
        _CLEAR.write_text("5")  # resets the peak, proc(5)
        if device.type == "cpu":
            return _status_bytes("VmRSS")
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    return 0


def peak_beyond(device: torch.device, before: int) -> int | None:
    """The peak bytes since ``begin_peak``, beyond those in use then; None if unknown.

    For a CPU, the resident pages of this process: only Linux has a peak that can be reset.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) - before
    return _status_bytes("VmHWM") - before if before else None


def peak_memory_bytes(device: str) -> int:
    """The peak bytes since ``begin_peak``, or of the process where nothing resets a peak."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


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
        help = "a smaller model, a shorter seq, or a larger device"
        return MachineError(f"{what}, nor does one", help)
    does = "do" if rehearse else "might"
    return MachineError(f"{what} in memory; {rows} {does}", f"--resume --set microbatch={rows}")


def _fits(rehearse: Callable[[int], None], rows: int) -> bool:
    try:
        torch.cuda.empty_cache()  # of a process that uses a GPU
        rehearse(rows)
    except (RuntimeError, MemoryError) as error:
        if is_out_of_memory(error):
            return False
        raise
    return True
