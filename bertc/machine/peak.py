"""The peak memory of this process, on a device or in main memory."""

import resource
import sys

import torch

from bertc.machine.heap import reset_peak, resident_beyond


def begin_peak(device: torch.device) -> int:
    """Reset the peak; returns the bytes in use now, for ``peak_beyond``."""
    before = reset_peak()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    return before


def peak_beyond(device: torch.device, before: int) -> int | None:
    """The peak bytes since ``begin_peak``, beyond those in use then; None if unknown.

    For a CPU, the resident pages of this process: only Linux has a peak that can be reset.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) - before
    return resident_beyond(before)


def peak_memory_bytes(device: str) -> int:
    """The peak bytes since ``begin_peak``, or of the process where nothing resets a peak."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    if device == "mps":
        return torch.mps.driver_allocated_memory()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
