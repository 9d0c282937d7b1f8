"""This machine's processor, by the system's word and as ``bench --calibrate`` measured it."""

import hashlib
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bertc.base.cores import system_text
from bertc.base.diagnostics import BertcError
from bertc.base.storage.paths import cache_folder, is_file
from bertc.base.storage.plain_file import read_json
from bertc.cost.machines.device import Rates

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

    hertz: float
    fp32_flops: float
    bf16_flops: float
    bandwidth_bytes: float


def core_here() -> Core:
    """The rates of a core from its clock and its vector instructions."""
    flags, hertz = cpu_flags(), _hertz()
    wide = bool({"avx2", "avx512f"} & flags)
    fp32 = hertz * (FLOPS_A_CYCLE if wide else NARROW_FLOPS_A_CYCLE)
    gain = next((gain for flag, gain in BF16_GAIN.items() if flag in flags), 0)
    return Core(hertz, fp32, gain * fp32, BYTES_A_SECOND)


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
    lines = (line.partition(":") for line in system_text(CPU_INFO).splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == field), "")


def _hertz() -> float:
    """The highest clock, else the present one, else ``ASSUMED_CLOCK``."""
    for text, unit in ((system_text(CLOCK), 1e3), (cpu_info("cpu MHz"), 1e6)):
        with suppress(ValueError):
            return unit * float(text) or ASSUMED_CLOCK
    return ASSUMED_CLOCK


LIMITS = ("ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
"""Environment variables that restrict torch's libraries to older instructions."""


class Calibration(BaseModel):
    """Rates by number of threads per process; dumped as the JSON file in the cache."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    format_version: Annotated[Literal[2], Field(alias="schema")] = 2
    torch: str
    threads: Annotated[dict[int, Rates], Field(min_length=1)]

    def at(self, cores: float) -> Rates:
        """Rates for this many cores: as measured, or scaled from the nearest measured number."""
        nearest = min(self.threads, key=lambda threads: abs(threads - cores))
        measured = self.threads[nearest]
        return measured if nearest == cores else measured.times(cores / nearest)

    def as_json(self) -> str:
        """The file's content."""
        return self.model_dump_json(by_alias=True, indent=1)


def calibration_path() -> Path:
    """The calibration file of this machine; each processor model has its own."""
    model = cpu_info("model name") or platform.processor()
    limits = (os.environ.get(name, "").lower() for name in LIMITS)
    description = "\n".join((platform.machine(), model, *limits))
    digest = hashlib.sha256(description.encode()).hexdigest()
    return cache_folder() / "calibration" / f"{digest[:16]}.json"


def calibration_here() -> Calibration | None:
    """The rates of this machine; None if not measured or the file is damaged."""
    path = calibration_path()
    if not is_file(path):
        return None
    try:
        return Calibration.model_validate(read_json(path, 2**20))
    except (BertcError, ValidationError):
        return None
