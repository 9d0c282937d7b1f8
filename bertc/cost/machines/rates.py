"""Measured rates of a machine by operation; ``bertc calibrate`` writes them."""

import math
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

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
