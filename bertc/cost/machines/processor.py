"""This machine's processor as the system describes it, and the rates that follow from that."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

CPU_INFO = Path("/proc/cpuinfo")
CLOCK = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
ASSUMED_CLOCK = 2.5e9
"""Hertz where the system states no clock."""
FLOPS_A_CYCLE, NARROW_FLOPS_A_CYCLE = 32, 16
"""fp32 FLOPs per cycle and core: two multiply-adds of 256 bits or one of 512; else of 128 bits."""
BF16_GAIN = {"amx_bf16": 4, "avx512_bf16": 2, "bf16": 2, "svebf16": 2}
"""Speed of bf16 products over fp32 by instruction set; the first that a processor has counts."""
BYTES_A_SECOND = 12.5e9
"""Nominal memory traffic per core (an EPYC's core copies 21 GB/s alone, less with neighbours)."""


class Core(NamedTuple):
    """Peak rates of one core; ``bf16_flops`` is 0 without instructions for it."""

    clock: float
    fp32_flops: float
    bf16_flops: float
    bandwidth_bytes: float


def core_here() -> Core:
    """The rates of a core from its clock and its vector instructions."""
    flags, clock = cpu_flags(), _clock()
    wide = bool({"avx2", "avx512f"} & flags)
    fp32 = clock * (FLOPS_A_CYCLE if wide else NARROW_FLOPS_A_CYCLE)
    gain = next((gain for flag, gain in BF16_GAIN.items() if flag in flags), 0)
    return Core(clock, fp32, gain * fp32, BYTES_A_SECOND)


def cpu_flags() -> frozenset[str]:
    """The instructions of this processor that oneDNN may use (ONEDNN_MAX_CPU_ISA)."""
    flags = (cpu_info("flags") or cpu_info("Features")).split()
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    if limit.startswith(("SSE", "AVX2")) or limit == "AVX":
        return frozenset(flag for flag in flags if not flag.startswith(("avx512", "amx")))
    if limit in ("AVX512_CORE", "AVX512_CORE_VNNI"):
        return frozenset(flag for flag in flags if flag != "avx512_bf16" and flag[:3] != "amx")
    return frozenset(flags)


def cpu_info(field: str) -> str:
    """A field of the first processor in /proc/cpuinfo; empty where there is none."""
    lines = (line.partition(":") for line in _read(CPU_INFO).splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == field), "")


def _clock() -> float:
    """Hertz: the highest clock, else the present one, else ``ASSUMED_CLOCK``."""
    for text, unit in ((_read(CLOCK), 1e3), (cpu_info("cpu MHz"), 1e6)):
        with suppress(ValueError):
            return unit * float(text) or ASSUMED_CLOCK
    return ASSUMED_CLOCK


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
