"""Devices: what their data sheets promise, and what share of it a training step is assumed to get.

Peaks are dense (without sparsity). Memory is what a driver reports as total.
"""

import difflib
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from bertc.diagnostics import UsageError
from bertc.passes.cores import available_cores

GIB = 2**30
TERA = 1e12


@dataclass(frozen=True)
class Device:
    """One accelerator, or all cores of a CPU. ``bf16_flops`` is 0 where bf16 is not fast.

    ``mfu`` is the assumed share of the peak, ``mfu_source`` where that assumption comes from. Where
    a step was measured in parts it is the share that products get, and ``kept_seconds`` come on top
    for a byte that forward keeps, ``weight_seconds`` for a weight that is applied or moved.
    ``link_bytes`` is what a link to the other devices of a machine promises, a second and each way:
    NVLink, PCIe, or the main memory between processes.
    """

    name: str
    memory_bytes: int
    bf16_flops: float
    fp32_flops: float
    mfu: float
    mfu_source: str
    link_bytes: float = 10e9
    kept_seconds: float = 0.0
    weight_seconds: float = 0.0

    @property
    def kind(self) -> Literal["cpu", "cuda"]:
        """What bertc calls such a device when it runs there."""
        return "cpu" if self.name == "cpu" else "cuda"

    def precision(self, asked: Literal["auto", "fp32", "bf16"]) -> Literal["fp32", "bf16"]:
        """What a run computes in; auto is bf16 where that is fast."""
        if asked == "auto":
            return "bf16" if self.bf16_flops else "fp32"
        return asked

    def peak_flops(self, precision: Literal["fp32", "bf16"]) -> float:
        """FLOP/s; bf16 on a device without it runs as fp32."""
        return self.bf16_flops or self.fp32_flops if precision == "bf16" else self.fp32_flops


HOPPER = (
    "a 0.8B decoder at 512 tokens gets 40.4% of an H100 (llm-foundry, scripts/train/benchmarking)"
)
AMPERE = "BERT-large at 128 tokens gets 44.7% (NVIDIA DeepLearningExamples, PyTorch BERT README)"
UNMEASURED = "no published figure for encoders; as for the A100"

ACCELERATORS = {
    device.name: device
    for device in (
        Device("h200", 139 * GIB, 989.4 * TERA, 66.9 * TERA, 0.40, HOPPER, 450e9),
        Device("h100", 79 * GIB, 989.4 * TERA, 66.9 * TERA, 0.40, HOPPER, 450e9),
        Device("a100", 79 * GIB, 312 * TERA, 19.5 * TERA, 0.45, AMPERE, 300e9),
        Device("v100", 31 * GIB, 0, 15.7 * TERA, 0.45, UNMEASURED, 150e9),
        Device("rtx4090", 23 * GIB, 165.2 * TERA, 82.6 * TERA, 0.45, UNMEASURED, 32e9),
        Device("l4", 22 * GIB, 121 * TERA, 30.3 * TERA, 0.45, UNMEASURED, 32e9),
        Device("t4", 14 * GIB, 0, 8.1 * TERA, 0.45, UNMEASURED, 16e9),
    )
}
NAMES = (*ACCELERATORS, "cpu")

BF16_FLOPS_PER_CORE = 200e9
FP32_FLOPS_PER_CORE = 100e9
CPU_MFU = 0.9
CPU_KEPT_SECONDS = 1.1e-9
CPU_WEIGHT_SECONDS = 1.8e-9
CPU_SOURCE = (
    "eager steps 64 to 768 wide on a server CPU with AVX-512: products at 0.9 of 200 GFLOP/s a\n"
    "core in bf16, 100 in fp32; 1.1 ns a byte kept for backward, 1.8 ns a weight applied or moved"
)


def device_named(name: str, processes: int = 1) -> Device:
    """The device of that name; ``cpu`` is this machine's, shared by so many processes.

    Raises:
        UsageError: if there is none.
    """
    if name.lower() == "cpu":
        return this_cpu(processes)
    if name.lower() in ACCELERATORS:
        return ACCELERATORS[name.lower()]
    near = difflib.get_close_matches(name.lower(), NAMES, n=1)
    hint = f"--device {near[0]}; " if near else ""
    raise UsageError(f"unknown device {name}", help=f"{hint}known are {', '.join(NAMES)}")


def accelerator_called(title: str) -> Device | None:
    """The accelerator that a driver calls ``title``, such as ``NVIDIA A100-SXM4-80GB``."""
    words = title.lower().replace("-", " ").split()
    names = {*words, *map("".join, pairwise(words))}
    return next((device for name, device in ACCELERATORS.items() if name in names), None)


def nearest_to(kind: Literal["cpu", "cuda"], title: str) -> str:
    """The name to estimate by of the device that is here; an H200 for a GPU that is not known."""
    known = accelerator_called(title)
    return "cpu" if kind == "cpu" else known.name if known else "h200"


def this_cpu(processes: int = 1) -> Device:
    """What one of so many processes has of the CPU bertc runs on: cores, memory, fast bf16 or not.

    ``OMP_NUM_THREADS`` says how many cores one may use, as it does to torch.
    """
    flags = _cpu_flags()
    fast_bf16 = bool({"avx512_bf16", "amx_bf16", "bf16", "svebf16"} & flags)
    fp32_flops = FP32_FLOPS_PER_CORE if "avx512f" in flags else FP32_FLOPS_PER_CORE / 2
    cores, threads = available_cores() / processes, os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads):
        cores = min(cores, int(threads))
    return Device(
        name="cpu",
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // processes,
        bf16_flops=BF16_FLOPS_PER_CORE * cores if fast_bf16 else 0.0,
        fp32_flops=fp32_flops * cores,
        mfu=CPU_MFU,
        mfu_source=f"{cores:.2g} of {available_cores()} cores for each process; {CPU_SOURCE}",
        kept_seconds=CPU_KEPT_SECONDS / cores,
        weight_seconds=CPU_WEIGHT_SECONDS / cores,
    )


def _cpu_flags() -> set[str]:
    """Instruction sets, where the system tells them (Linux)."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    for line in text.splitlines():
        if line.startswith(("flags", "Features")):
            return set(line.partition(":")[2].split())
    return set()
