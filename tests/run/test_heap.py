"""Memory of a run: what a step frees is there for the next one, what others held is not counted."""

import platform
import resource
import sys

import pytest
import torch

from bertc.machine.memory import keep_freed_memory
from bertc.run.records.folder import RunFolder
from bertc.run.train.loop import train


@pytest.mark.skipif(
    sys.platform != "linux" or platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's"
)
def test_pages_are_not_mapped_anew_every_time():
    def faults() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(2**24)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    with keep_freed_memory():
        again = [faults() for _ in range(12)][6:]
    assert sum(again) < 3 * 16_384, "64 MiB are 16,384 pages"


@pytest.mark.skipif(sys.platform != "linux", reason="no peak can be reset elsewhere")
def test_the_peak_of_a_run_is_not_that_of_what_was_before_in_its_process(tiny, tmp_path):
    held = torch.ones(2**28)  # 1 GiB
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    del held
    train(tiny(), tmp_path / "run", cache=tmp_path / "cache", quiet=True)
    peak = max(spent.memory_bytes for spent in RunFolder(tmp_path / "run").read_spent().values())
    assert 0 < peak < before - 2**29
