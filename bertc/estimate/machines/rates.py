"""What a machine was measured to do, operation by operation: what ``bertc calibrate`` writes."""

import math
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Rate = Annotated[float, Field(gt=0, lt=1e19, allow_inf_nan=False)]


class Point(BaseModel):
    """A rate, measured at some sizes."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    at: tuple[Annotated[int, Field(ge=1, lt=2**40)], ...]
    rate: Rate


Points = Annotated[tuple[Point, ...], Field(min_length=1)]


class Rates(BaseModel):
    """Each for forward and backward together, by all threads of a process.

    Under ``fp32`` and ``bf16``: ``products`` in FLOP/s at the narrower of two widths, ``attention``
    in scores/s at keys and head width, where it has dropout under ``bf16 dropout``; ``elements`` by
    function and precision (``gelu bf16``), ``optimizers`` in weights/s, one ``start`` in seconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    products: dict[str, Points]
    attention: dict[str, Points]
    elements: dict[str, Rate]
    optimizers: dict[str, Rate]
    bandwidth_bytes: Rate
    start_seconds: Rate

    def times(self, factor: float) -> "Rates":
        """The same work by ``factor`` as many cores, a start as ever."""

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
    """The rate between measured sizes: a mean of logarithms, the nearer the more it counts."""
    total = weight = 0.0
    for point in points:
        apart = sum(math.log2(a / b) ** 2 for a, b in zip(point.at, sizes, strict=True))
        near = 1 / (apart + 1e-3) ** 2
        total, weight = total + near * math.log(point.rate), weight + near
    return math.exp(total / weight)
