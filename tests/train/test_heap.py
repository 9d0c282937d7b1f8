"""Memory that a step frees is there for the next one."""

import platform
import resource
import sys

import pytest
import torch

from bertc.host.heap import keep_freed_memory


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
