"""The peak memory of the device under test."""

import torch

from bertc.host import resident


def begin_peak(device: torch.device) -> int:
    """Reset the peak; returns the bytes in use now, for ``peak_bytes``."""
    before = resident.reset_peak()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    return before


def peak_bytes(device: torch.device, before: int) -> int | None:
    """The peak bytes since ``begin_peak``, beyond those in use then; None if unknown.

    For a CPU, the resident pages of this process: only Linux has a peak that can be reset.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) - before
    return resident.peak_beyond(before)
