"""The peak memory of the device under test."""

import gc
from pathlib import Path

import torch

from bertc.host.heap import trim_heap

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc(5)


def begin_peak(device: torch.device) -> int:
    """Reset the peak; returns the bytes in use now, for ``peak_bytes``."""
    gc.collect()
    trim_heap()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    try:
        _CLEAR.write_text(_RESET_PEAK)
    except OSError:
        return 0  # no figure will be had
    return _status_bytes("VmRSS")


def peak_bytes(device: torch.device, before: int) -> int | None:
    """The peak bytes since ``begin_peak``, beyond those in use then; None if unknown.

    For a CPU, the resident pages of this process: only Linux has a peak that can be reset.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) - before
    return _status_bytes("VmHWM") - before if before else None


def _status_bytes(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return 0
