"""Memory of this process: heap (glibc), resident pages (Linux), peak. Loads no torch."""

import ctypes
import platform
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

# mallopt(3), and its defaults.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_NEVER, _TRIM_DEFAULT, _MMAP_DEFAULT = -1, 128 * 1024, 65_536
_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc(5)


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Keep freed memory in this process inside this block; does nothing without glibc.

    A step on a CPU frees and takes hundreds of megabytes. Mapping them anew costs BERT-base 97,000
    page faults a step, 5 to 9% of its time.
    """
    libc = _glibc()
    if libc is None:
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
        _CLEAR.write_text(_RESET_PEAK)
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
