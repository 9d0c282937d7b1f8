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
SHARE_KEPT = 0.87
"""Part of its fair share of cores that a step on several keeps: its threads wait for one another.

Measured beside one, two and three busy processes on two cores (docs/performance.md): 0.83, 0.89,
0.87 in fp32 with AVX-512 and with AVX2, 0.83, 0.91, 0.83 in bf16 with AMX."""
SAMPLES, SAMPLE_SECONDS = 8, 0.004
"""Samples of the number of threads that want a core, and the time between them."""
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
    if not waiting_is_configured() and taken_by_others(since) >= NOTABLE_CORES:
        os.environ["GOMP_SPINCOUNT"] = SPINS


def waiting_is_configured() -> bool:
    """True if the environment already sets how idle threads wait."""
    return bool({"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & os.environ.keys())


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
    """CPU seconds since boot on the cores of this process, and the clock time.

    ``nice``: the part of ``busy`` that is of processes with a lower priority than usual.
    """

    busy: float
    this_process: float
    at: float
    nice: float = 0.0


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
        nice=sum(core[1] for core in ticks) / second,
    )


def taken_by_others(since: CpuTimes | None, children_seconds: float = 0.0) -> float:
    """The mean number of cores that other processes took since then; 0 if unknown.

    ``children_seconds`` are CPU seconds of processes that this one started, which do not count.
    """
    if since is None or (until := cpu_times()) is None or until.at <= since.at:
        return 0.0
    ours = until.this_process - since.this_process + children_seconds
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


def busy_threads_of_others(since: CpuTimes | None) -> float:
    """The mean number of threads of other processes that want this process's cores; 0 if unknown.

    Those that wait for a core count too: on two cores, two busy processes and three take as much.
    Samples are taken only where cores were taken since then; of threads on a larger machine these
    cores have their part. This process has one thread that is busy, the caller.
    """
    taken = taken_by_others(since)
    if since is None or taken < NOTABLE_CORES or _give_way(since):
        return taken
    samples = []
    for _ in range(SAMPLES):
        time.sleep(SAMPLE_SECONDS)
        samples.append(_running_threads() - 1)
    part = len(os.sched_getaffinity(0)) / (os.cpu_count() or 1)
    return max(taken, part * sum(samples) / SAMPLES)


def _give_way(since: CpuTimes) -> bool:
    """True if most of what was taken since then is of processes that are nicer than this one."""
    until = cpu_times()
    if until is None or os.getpriority(os.PRIO_PROCESS, 0) > 0:
        return False
    others = (until.busy - since.busy) - (until.this_process - since.this_process)
    return until.nice - since.nice > others / 2


def _running_threads() -> int:
    """The number of threads on this machine that run or wait for a core; 1 if unknown."""
    for line in _read(PROCESSES / "stat").splitlines():
        name, _, count = line.partition(" ")
        if name == "procs_running" and count.isdecimal():
            return int(count)
    return 1


def slowdown(threads: float) -> float:
    """The factor by which a step takes longer beside busy threads of other processes.

    Of C cores a step on C threads gets C / (C + n) beside n others, since threads that want the
    same cores get about equal parts, and of that it keeps ``SHARE_KEPT``.
    """
    if threads < NOTABLE_CORES:
        return 1.0
    cores = available_cores()
    return (1 + threads / cores) / (SHARE_KEPT if cores > 1 else 1.0)


def slowdown_note(threads: float) -> str:
    """A remark on how much busy threads of others slow a step; empty below ``NOTABLE_CORES``."""
    if threads < NOTABLE_CORES:
        return ""
    return (
        f"Other processes keep {threads:.1f} threads busy on {available_cores()} cores now: beside "
        f"them it takes about {slowdown(threads):.1f} times as long."
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
