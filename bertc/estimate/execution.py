"""Execution settings of operations: device kind, precision, compiled or eager."""

from typing import Literal, NamedTuple

from bertc.ir.base import DeviceKind

FP32 = 4


class Execution(NamedTuple):
    """Device kind, activation precision and compilation; weights are always fp32."""

    device: DeviceKind
    precision: Literal["fp32", "bf16"]
    compiled: bool

    @property
    def value_bytes(self) -> int:
        """Bytes per activation element."""
        return 2 if self.precision == "bf16" else FP32

    @property
    def mask_bytes(self) -> int:
        """Bytes per element of a dropout mask: 1 on a GPU; an eager CPU saves only the seed."""
        if self.device != "cpu":
            return 1
        return self.value_bytes if self.compiled else 0


ANY = Execution("cpu", "fp32", compiled=False)
"""Settings for counting FLOPs, which do not depend on them."""
