"""CPU cores that this process may use."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
PROCESSES = Path("/proc")


def available_cores() -> int:
    """The number of cores that affinity and the quotas of control groups allow this process.

    A part of a core counts as one: two threads on a quota of 1.5 do 1.5 times the work of one.
    """
    by_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if by_affinity else os.cpu_count() or 1
    return max(1, min([cores, *(math.ceil(quota) for quota in _quotas())]))


def _quotas() -> Iterator[float]:
    """Quotas in cores, one for each control group of this process and above it that has one."""
    for line in system_text(PROCESSES / "self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers:
            continue  # a tree of version 1
        group = Path(path.strip("/"))
        # In a container its own group is mounted as the root, whatever the path says.
        for folder in {GROUPS / part for part in (group, *group.parents)} | {GROUPS}:
            # "max 100000", "150000 100000" microseconds
            match system_text(folder / "cpu.max").split():
                case [quota, period] if quota.isdecimal() and period.isdecimal() and int(period):
                    yield int(quota) / int(period)


def system_text(path: Path) -> str:
    """The text of a file of the system, empty where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
