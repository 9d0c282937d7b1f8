"""The figures of this device, as ``bertc estimate --device FILE.json`` reads them."""

from pathlib import Path

import torch

from bertc.cost import Device, estimate
from bertc.ir.program.resolved import Resolved


def fitted(device: Device, resolved: Resolved, seconds: float) -> Device:
    """With the share of products that makes the estimate of this step what was measured."""
    low, high = 0.01, 1.0
    for _ in range(20):
        share = (low + high) / 2
        told = estimate(resolved, with_share(device, share)).time.seconds_per_step
        low, high = (share, high) if told > seconds else (low, share)
    return with_share(device, round((low + high) / 2, 4))


def with_share(device: Device, share: float) -> Device:
    """The same of another share."""
    return device.model_copy(update={"product_share": share})


def write(device: Device, folder: Path, step: str) -> None:
    """Keep it, with what it was found by."""
    source = f"peaks, copies and launches measured by tests.bench.gpu, share of the step of {step}"
    whole = device.model_copy(update={"source": f"{source}; torch {torch.__version__}"})
    (folder / "device.json").write_text(whole.as_json() + "\n")
