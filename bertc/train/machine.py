"""What this machine offers a run."""

import os
import platform
from pathlib import Path

import torch

from bertc.passes import Machine


def detect(wanted: str = "auto") -> Machine:
    """The device a run would use: a CUDA device where there is one, unless ``wanted`` is ``cpu``."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if wanted != "cpu" and torch.cuda.is_available():
        return Machine(
            device="cuda",
            name=torch.cuda.get_device_name(),
            memory_bytes=torch.cuda.get_device_properties(0).total_memory,
            fast_bf16=torch.cuda.is_bf16_supported(including_emulation=False),
            cores=cores or 1,
        )
    return Machine(
        device="cpu",
        name=_processor(),
        memory_bytes=_free_memory_bytes(),
        fast_bf16=_cpu_has_bf16(),
        cores=cores or 1,
    )


def _processor() -> str:
    """The name of the processor."""
    lines = _read("/proc/cpuinfo").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _cpu_has_bf16() -> bool:
    """Whether matrix products in bf16 have instructions of their own."""
    flags = set(_read("/proc/cpuinfo").split())
    return not flags.isdisjoint(("avx512_bf16", "amx_bf16", "bf16", "svebf16"))


def _free_memory_bytes() -> int:
    """Main memory that can be had without swapping, within the limit of the control group."""
    pages, page_bytes = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    free = pages * page_bytes
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    limit, used = _read("/sys/fs/cgroup/memory.max"), _read("/sys/fs/cgroup/memory.current")
    if limit.strip().isdigit() and used.strip().isdigit():
        free = min(free, int(limit) - int(used))
    return free


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
