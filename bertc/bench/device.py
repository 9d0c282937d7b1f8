"""The device under the clock: when it is done, what it can do at best, how much memory it held."""

import gc
import time
from pathlib import Path

import torch

from bertc.train.heap import hand_back

MATMUL = {"cpu": (2048, 1), "cuda": (8192, 8)}
"""The width of a product, and how many are timed at once."""
MATMUL_SECONDS = 0.3

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc(5)


def finish(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def matmul_flops_per_second(device: torch.device, dtype: torch.dtype) -> float:
    """The best rate of a large square matrix product, which no step can exceed."""
    n, products = MATMUL[device.type]
    left, right = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    result = left @ right
    finish(device)
    best, until = 0.0, time.perf_counter() + MATMUL_SECONDS
    while time.perf_counter() < until or not best:
        started = time.perf_counter()
        for _ in range(products):
            torch.mm(left, right, out=result)
        finish(device)
        best = max(best, products * 2 * n**3 / (time.perf_counter() - started))
    return best


def begin_peak(device: torch.device) -> int:
    """Bytes in use now; ``peak_bytes`` counts from this moment on."""
    gc.collect()
    hand_back()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device)
    try:
        _CLEAR.write_text(_RESET_PEAK)
    except OSError:
        return 0  # no figure will be had
    return _status_bytes("VmRSS")


def peak_bytes(device: torch.device, before: int) -> int | None:
    """The most bytes in use since ``begin_peak``, beyond those of then; None where none can tell.

    Of main memory, the pages of this process: Linux alone keeps a peak that can be reset.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) - before
    return _status_bytes("VmHWM") - before if before else None


def _status_bytes(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return 0
