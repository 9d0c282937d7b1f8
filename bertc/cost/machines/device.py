"""One device as figures, from a data sheet, a user or measurements by ``bench --calibrate``.

This machine's processor is known by the system's word, and as it was measured.
"""

import hashlib
import math
import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bertc.base.cores import system_text
from bertc.base.diagnostics import BertcError, UsageError
from bertc.base.storage.paths import cache_folder, is_file
from bertc.base.storage.plain_file import read_json
from bertc.ir.base import DeviceKind

Rate = Annotated[float, Field(gt=0, lt=1e19, allow_inf_nan=False)]


class Point(BaseModel):
    """A rate measured at one size or combination of sizes."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    at: tuple[Annotated[int, Field(ge=1, lt=2**40)], ...]
    rate: Rate


Points = Annotated[tuple[Point, ...], Field(min_length=1)]


class Rates(BaseModel):
    """Rates of forward and backward together, for all threads of a process.

    Keys are ``fp32`` and ``bf16``. ``products``: FLOP/s by the narrower matrix width and the wider.
    ``attention``: scores/s by number of keys and head width, with dropout under ``bf16 dropout``.
    ``elements``: elements/s by function and precision (``gelu bf16``). ``optimizers``: weights/s.
    ``start_seconds``: seconds per operation.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    products: dict[str, Points]
    attention: dict[str, Points]
    elements: dict[str, Rate]
    optimizers: dict[str, Rate]
    bandwidth_bytes: Rate
    start_seconds: Rate

    def times(self, factor: float) -> "Rates":
        """Rates with ``factor`` times the cores; the start cost stays."""

        def faster(points: Points) -> Points:
            return tuple(Point(at=p.at, rate=p.rate * factor) for p in points)

        return Rates(
            products={name: faster(points) for name, points in self.products.items()},
            attention={name: faster(points) for name, points in self.attention.items()},
            elements={name: rate * factor for name, rate in self.elements.items()},
            optimizers={name: rate * factor for name, rate in self.optimizers.items()},
            bandwidth_bytes=self.bandwidth_bytes * factor,
            start_seconds=self.start_seconds,
        )


def rate_at(points: Points, *sizes: int) -> float:
    """Interpolate between measured sizes: a mean of logarithms weighted by nearness."""
    total = weight = 0.0
    for point in points:
        apart = sum(math.log2(a / b) ** 2 for a, b in zip(point.at, sizes, strict=True))
        near = 1 / (apart + 1e-3) ** 2
        total, weight = total + near * math.log(point.rate), weight + near
    return math.exp(total / weight)


LOADED_TOKENS = 20e6
"""Tokens per second that one core fetches and masks (docs/measured.md)."""
LOOPS_SLOWER = 12
"""Speed of fp32 products over bf16 ones in torch's loops: 11 to 24 as measured with AVX2."""


@dataclass(frozen=True, kw_only=True)
class Device:
    """One accelerator, or all cores of a CPU.

    Rates are dense FLOP/s and bytes/s; 0 means unknown. ``bf16_flops`` is 0 where bf16 is not fast;
    with ``loops_bf16`` torch makes its products in loops of its own, as on a CPU without AVX-512.
    ``product_share`` is the share of the peak that matmuls reach, ``source`` where that figure
    comes from.

    ``bandwidth_bytes`` is the nominal memory bandwidth, ``launch_seconds`` the host's time per
    kernel, ``link_bytes`` the nominal rate each way to the other devices of the machine (NVLink,
    PCIe or main memory), ``network_bytes`` that to other machines. Measured ``rates`` take
    precedence over all of these. Times are expected within a factor of ``time_within``; None: no
    range is stated.
    """

    name: str
    kind: DeviceKind
    memory_bytes: int
    bf16_flops: float = 0.0
    loops_bf16: bool = False
    fp32_flops: float = 0.0
    bandwidth_bytes: float = 0.0
    link_bytes: float = 10e9
    network_bytes: float = 50e9
    product_share: float
    launch_seconds: float = 0.0
    cores: float = 1.0
    rates: Rates | None = None
    time_within: float | None = None
    source: str

    def peak_flops(self, precision: Literal["fp32", "bf16"]) -> float:
        """FLOP/s; bf16 on a device without it runs as fp32, or in loops."""
        slower = self.fp32_flops / (LOOPS_SLOWER if self.loops_bf16 else 1)
        peak = self.bf16_flops or slower if precision == "bf16" else self.fp32_flops
        if not peak:
            raise UsageError(
                f"how fast {self.name} is in {precision} is not known",
                help=f'--device "{self.name},bf16=...,fp32=..." with its TFLOP/s',
            )
        return peak

    @property
    def bandwidth(self) -> float:
        """Usable bytes per second of memory traffic."""
        if self.rates:
            return self.rates.bandwidth_bytes
        return 0.8 * self.bandwidth_bytes  # the share that copying kernels are assumed to reach

    @property
    def seconds_a_start(self) -> float:
        """Host seconds per kernel."""
        return self.rates.start_seconds if self.rates else self.launch_seconds


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
