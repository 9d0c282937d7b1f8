"""CPU cores that this process may use."""

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
PROCESSES = Path("/proc")


def available_cores() -> int:
    """The number of cores that affinity and the quotas of control groups allow this process.

    A part of a core counts as one: two threads on a quota of 1.5 do 1.5 times the work of one.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    return max(1, min([cores, *(math.ceil(quota) for quota in _quotas())]))


def _quotas() -> Iterator[float]:
    """Quotas in cores, one for each control group of this process and above it that has one."""
    for line in _read(PROCESSES / "self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2: one tree, "max 100000" or "150000 100000" microseconds
            yield from _granted(GROUPS, path, lambda folder: _read(folder / "cpu.max").split())
        elif "cpu" in controllers.split(","):
            yield from _granted(GROUPS / "cpu", path, _version_1)


def _version_1(folder: Path) -> list[str]:
    names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    return [_read(folder / name).strip() for name in names]


def _granted(
    root: Path, path: str, quota_and_period: Callable[[Path], list[str]]
) -> Iterator[float]:
    """Quota over period of each group from ``path`` up to ``root`` that has a quota."""
    group = Path(path.strip("/"))
    # In a container its own group is mounted as the root, whatever the path says.
    for folder in {root / part for part in (group, *group.parents)} | {root}:
        match quota_and_period(folder):
            case [quota, period] if quota.isdecimal() and period.isdecimal() and int(period):
                yield int(quota) / int(period)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
