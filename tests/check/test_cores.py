"""The cores that a process may use."""

import os

import pytest

from bertc.base import cores


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
        ("4:cpu,cpuacct:/a\n1:name=systemd:/a\n", {"cpu.max": "150000 100000\n"}, 8),
    ],
)
def test_a_quota_counts_as_cores(group, files, expected, machine):
    machine("proc/self/cgroup", group)
    for path, text in files.items():
        machine(f"groups/{path}", text)
    assert cores.available_cores() == expected
