"""Figures of the device in this machine: by its name, or measured within a second."""

import math
import time
from collections.abc import Callable
from dataclasses import replace

import torch

from bertc.cost import Device
from bertc.cost.machines.accelerators import LAUNCH_SECONDS, PRODUCTS_OF_A_STEP, accelerator_called
from bertc.cost.machines.devices import this_cpu
from bertc.cost.planning.plan import Machine

MATMUL = {"cpu": (2048, 1), "cuda": (8192, 8)}
"""Width of the timed products, and their number between two looks at the clock."""
MATMUL_SECONDS = 0.3
COPIED_NUMBERS = 1 << 26
SHARE_OF_MEASURED = PRODUCTS_OF_A_STEP / 0.79
"""Fraction of the measured rate that a step's products reach.

An A100's large products reach 0.79 of the peak on its data sheet, so that steps get a larger
fraction of a measured rate than of a published one.
"""


def device_here(machine: Machine, processes: int = 1) -> Device:
    """The figures of the device of a run, for one of ``processes`` on this machine."""
    if machine.device == "cpu":
        return this_cpu(processes)
    known = accelerator_called(machine.name)
    if known:
        return replace(known, memory_bytes=machine.memory_bytes)
    return measured(machine)


def measured(machine: Machine) -> Device:
    """Measure matmul and copy rates of the GPU."""
    device = torch.device(machine.device)
    fp32 = matmul_flops_per_second(device, torch.float32)
    bf16 = matmul_flops_per_second(device, torch.bfloat16) if machine.fast_bf16 else 0.0
    source = torch.zeros(COPIED_NUMBERS, device=device)
    target = torch.empty_like(source)
    copy_seconds = _least_seconds(device, lambda: target.copy_(source))
    return Device(
        name=machine.name,
        kind=machine.device,
        memory_bytes=machine.memory_bytes,
        bf16_flops=bf16,
        fp32_flops=fp32,
        bandwidth_bytes=2 * source.nbytes / copy_seconds,  # read and written
        product_share=SHARE_OF_MEASURED,
        launch_seconds=LAUNCH_SECONDS,
        source="of large products and copies that were measured here; shares as on an A100",
    )


def finish(device: torch.device) -> None:
    """Wait until the device has finished all work queued on it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def matmul_flops_per_second(device: torch.device, dtype: torch.dtype) -> float:
    """The best rate of a large square matmul in FLOPs per second, an upper bound for steps."""
    n, products = MATMUL[device.type]
    first, second = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
    result = first @ second

    def multiply() -> None:
        for _ in range(products):
            torch.mm(first, second, out=result)

    return products * 2 * n**3 / _least_seconds(device, multiply)


def _least_seconds(device: torch.device, work: Callable[[], object]) -> float:
    """The seconds of the fastest of the calls within ``MATMUL_SECONDS``, of one at least."""
    finish(device)
    least, until = math.inf, time.perf_counter() + MATMUL_SECONDS
    while time.perf_counter() < until or least == math.inf:
        started = time.perf_counter()
        work()
        finish(device)
        least = min(least, time.perf_counter() - started)
    return least
