"""What a process may use of a machine, and what others take of it."""

import os
import subprocess
import sys

import pytest

from bertc.diagnostics import MachineError
from bertc.planning import cores


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine of eight cores with groups in a folder; files are written by their path."""
    monkeypatch.setattr(cores, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(cores, "PROCESSES", tmp_path / "proc")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    return write


@pytest.mark.parametrize(
    ("group", "files", "expected"),
    [
        ("0::/\n", {}, 8),
        ("0::/\n", {"cpu.max": "max 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 2),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "300000 100000\n"}, 3),
        # A container sees its own group as the root, and a path from outside.
        ("0::/docker/123\n", {"cpu.max": "50000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "1600000 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "nonsense\n"}, 8),
        (
            "4:cpu,cpuacct:/a\n1:name=systemd:/a\n",
            {"cpu/a/cpu.cfs_quota_us": "400000\n", "cpu/a/cpu.cfs_period_us": "100000\n"},
            4,
        ),
        (
            "4:cpu,cpuacct:/a\n",
            {"cpu/a/cpu.cfs_quota_us": "-1\n", "cpu/a/cpu.cfs_period_us": "100000\n"},
            8,
        ),
    ],
)
def test_a_quota_counts_as_cores(group, files, expected, machine):
    machine("proc/self/cgroup", group)
    for path, text in files.items():
        machine(f"groups/{path}", text)
    assert cores.available_cores() == expected


def test_what_others_take_is_what_is_busy_beside_this_process(machine, monkeypatch):
    ticks = os.sysconf("SC_CLK_TCK")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)

    def stat(first, second, other):
        lines = [
            f"cpu{n} {busy} 0 0 7 7 0 0 0 9 9" for n, busy in enumerate((first, second, other))
        ]
        machine("proc/stat", "cpu 1 2 3\n" + "\n".join(lines) + "\nintr 5\n")

    stat(0, 0, 0)
    before = cores.CpuTimes(0.0, cores.time.process_time(), 100.0)
    stat(3 * ticks, 1 * ticks, 9 * ticks)  # the third core is not for this process
    monkeypatch.setattr(cores.time, "monotonic", lambda: 102.0)
    monkeypatch.setattr(cores.time, "process_time", lambda: before.this_process + 1.0)
    assert cores.taken_by_others(before) == pytest.approx((4 - 1) / 2)


def test_where_the_system_does_not_tell_nothing_is_taken(machine):
    assert cores.cpu_times() is None
    assert cores.taken_by_others(None) == 0


def test_a_real_neighbour_is_seen():
    if cores.cpu_times() is None:
        pytest.skip("this system does not tell")
    program = "import sys; sys.stdin.read(1)\nfor _ in range(10**7): pass"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        before = cores.cpu_times()
        process.communicate(b"x")
    assert cores.taken_by_others(before) > 0


def test_little_that_others_take_is_not_told(monkeypatch):
    monkeypatch.setattr(cores, "available_cores", lambda: 4)
    assert cores.taken_note(0.2) == ""
    assert cores.taken_note(1.3) == "other processes took 1.3 of 4 cores while it was timed"


def test_rates_of_several_threads_are_not_measured_beside_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cores, "available_cores", lambda: 2)
    monkeypatch.setattr(cores, "taken_by_others", lambda since: 1.1)
    with pytest.raises(MachineError, match=r"take 1\.1 of 2 cores: rates of 2 threads") as refused:
        cores.refuse_busy(None, 2)
    assert "--threads 1" in refused.value.help
    cores.refuse_busy(None, 1)
    monkeypatch.setattr(cores, "taken_by_others", lambda since: 0.4)
    cores.refuse_busy(None, 2)
