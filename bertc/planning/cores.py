"""CPU cores that this process may use, and the share that other processes take of them."""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bertc.diagnostics import MachineError

NOTABLE_CORES = 0.25
"""Cores taken by other processes below which nothing is said or changed."""
BUSY_SHARE = 0.25
"""Share of the cores from which rates that are measured beside others' work mean nothing."""
SPINS = "200"
"""GOMP_SPINCOUNT: turns that an idle thread spins before it sleeps, some microseconds (libgomp)."""
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
    for folder in {root / each for each in (group, *group.parents)} | {root}:
        match quota_and_period(folder):
            case [quota, period] if quota.isdecimal() and period.isdecimal() and int(period):
                yield int(quota) / int(period)


def share_cores(since: "CpuTimes | None") -> None:
    """Let idle threads sleep soon if other processes were busy since that moment.

    They would spin for milliseconds, on cores that other processes, or the thread that they wait
    for, could use: beside one busy process a step on two cores took 1.6 times as long. On cores of
    its own a step that spins is faster by a sixth (docs/performance.md). OpenMP reads the setting
    when torch is loaded, so call this before; a choice of the user in the environment stays.
    """
    configured = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys()
    if not configured and taken_by_others(since) >= NOTABLE_CORES:
        os.environ["GOMP_SPINCOUNT"] = SPINS


@contextmanager
def default_waiting() -> Iterator[None]:
    """Start child processes inside this block without the setting of ``share_cores``."""
    ours = os.environ.get("GOMP_SPINCOUNT") == SPINS
    if ours:
        del os.environ["GOMP_SPINCOUNT"]
    try:
        yield
    finally:
        if ours:
            os.environ["GOMP_SPINCOUNT"] = SPINS


class CpuTimes(NamedTuple):
    """CPU seconds since boot on the cores of this process, and the clock time."""

    busy: float
    this_process: float
    at: float


def cpu_times() -> CpuTimes | None:
    """The CPU times until now; None where the system has none (other than Linux)."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    lines = [line.split() for line in _read(PROCESSES / "stat").splitlines()]
    # user, nice, system, idle, iowait, irq, softirq, steal (proc(5)), in ticks.
    our_cores = [line for line in lines if line and line[0] in allowed]
    if not our_cores:
        return None
    ticks, second = [list(map(int, line[1:9])) for line in our_cores], os.sysconf("SC_CLK_TCK")
    return CpuTimes(
        busy=sum(sum((*core[:3], *core[5:8])) for core in ticks) / second,
        this_process=time.process_time(),
        at=time.monotonic(),
    )


def taken_by_others(since: CpuTimes | None) -> float:
    """The mean number of cores that other processes took since then; 0 if unknown."""
    if since is None or (until := cpu_times()) is None or until.at <= since.at:
        return 0.0
    ours = until.this_process - since.this_process
    return max(0.0, (until.busy - since.busy - ours) / (until.at - since.at))


def refuse_busy(since: CpuTimes | None, threads: int) -> None:
    """Refuse to measure several threads of which others took a good part since then.

    One thread is timed by its own processor time, whatever others do.

    Raises:
        MachineError: with the remedy.
    """
    taken, cores = taken_by_others(since), available_cores()
    if threads > 1 and taken >= BUSY_SHARE * cores:
        raise MachineError(
            f"other processes take {taken:.1f} of {cores} cores: rates of {threads} threads would "
            "be of what they leave",
            help="once they are done; --threads 1 measures one core beside them",
        )


def taken_note(taken: float) -> str:
    """A remark on times that were measured beside other processes; empty below NOTABLE_CORES."""
    if taken < NOTABLE_CORES:
        return ""
    return f"other processes took {taken:.1f} of {available_cores()} cores while it was timed"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
