"""One device as figures, from a data sheet, a user or measurements by ``bench --calibrate``."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from bertc.base.diagnostics import UsageError
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
