"""Execution settings of operations, and the device budget that a step has to fit."""

from typing import Literal, NamedTuple

from bertc.cost.planning.world import Strategy
from bertc.ir import operation as op
from bertc.ir.base import DeviceKind
from bertc.ir.once import once
from bertc.ir.program.network import Network
from bertc.ir.program.passing import forward_pass
from bertc.ir.program.stage import Stage

FP32 = 4

Bf16 = Literal["native", "rounded", "looped"]
"""Ways of devices to make products of bf16 numbers: by instructions, in fp32, or looped.

In fp32 they are rounded afterwards; looped by torch's own code there is no copy in fp32.
"""


class Execution(NamedTuple):
    """Device kind, activation precision and compilation; weights are always fp32."""

    device: DeviceKind
    precision: Literal["fp32", "bf16"]
    compiled: bool
    bf16: Bf16 = "native"

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

    @property
    def unrounded_bytes(self) -> int:
        """Bytes beside each number of a bf16 product that the device makes in fp32 and rounds."""
        return FP32 if self.precision == "bf16" and self.bf16 == "rounded" else 0


ANY = Execution("cpu", "fp32", compiled=False)
"""Settings for counting FLOPs, which do not depend on them."""


class DeviceBudget(NamedTuple):
    """Device and settings of a step; ``memory_bytes`` excludes a CUDA context that has ``begun``.

    With ``strategy="ddp"`` gradients persist between steps.
    """

    memory_bytes: int
    execution: Execution
    recompute: Literal["auto", "on", "off"]
    strategy: Strategy = "single"
    begun: bool = False


@once
def networks_of(stage: Stage) -> tuple[Network, ...]:
    """Networks in use, in the order of their forward passes."""
    return stage.networks()


@once
def passes_of(stage: Stage, rows: int) -> tuple[tuple[Network, op.Forward], ...]:
    """Each network with its forward pass over ``rows`` rows."""
    return tuple((network, forward_pass(stage, network, rows)[0]) for network in networks_of(stage))
