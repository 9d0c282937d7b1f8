"""How operations run: on which kind of device, in which arithmetic, compiled or not."""

from dataclasses import dataclass
from typing import Literal

from bertc.ir.base import DeviceKind

FP32 = 4


@dataclass(frozen=True)
class Execution:
    """Activations are ``precision``, weights always fp32."""

    device: DeviceKind
    precision: Literal["fp32", "bf16"]
    compiled: bool

    @property
    def value_bytes(self) -> int:
        """Of an activation."""
        return 2 if self.precision == "bf16" else FP32

    @property
    def mask_bytes(self) -> int:
        """Of a dropout mask, an element: a GPU's are bytes, an eager CPU keeps a seed alone."""
        if self.device != "cpu":
            return 1
        return self.value_bytes if self.compiled else 0
