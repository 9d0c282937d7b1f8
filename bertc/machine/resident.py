"""The resident memory of this process and its peak, as Linux counts it. Loads no torch."""

from pathlib import Path

from bertc.machine.heap import trim_heap

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_RESET_PEAK = "5"  # proc(5)


def reset_peak() -> int:
    """Unmap freed memory and reset the peak; returns the bytes in use, 0 if no peak can be had."""
    trim_heap()
    try:
        _CLEAR.write_text(_RESET_PEAK)
    except OSError:
        return 0
    return _status_bytes("VmRSS")


def peak_beyond(before: int) -> int | None:
    """The peak bytes since ``reset_peak`` beyond those in use ``before``; None if unknown."""
    return _status_bytes("VmHWM") - before if before else None


def _status_bytes(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return 0
