"""Numbers of more digits than fp32, where a device has them."""

import torch

WITHOUT_FP64 = {"mps"}
"""Kinds of devices that know no fp64 (torch, aten/src/ATen/native/mps/OperationUtils.mm)."""


def exact(x: torch.Tensor) -> torch.Tensor:
    """``x`` in fp64, or in fp32 on a device that has none."""
    return x.float() if x.device.type in WITHOUT_FP64 else x.double()


def preparing(device: torch.device) -> torch.device:
    """The device on which masks are drawn for steps on another: draws need fp64."""
    return torch.device("cpu") if device.type in WITHOUT_FP64 else device
