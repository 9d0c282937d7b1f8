"""Double precision on devices that have it."""

import torch
from torch import Tensor

WITHOUT_FP64 = {"mps"}
"""Kinds of devices without fp64 (torch, aten/src/ATen/native/mps/OperationUtils.mm)."""


def exact(x: Tensor) -> Tensor:
    """``x`` in fp64, or in fp32 on a device without it."""
    return x.float() if x.device.type in WITHOUT_FP64 else x.double()


def preparing(device: torch.device) -> torch.device:
    """The device that draws masks for steps on ``device``: draws need fp64."""
    return torch.device("cpu") if device.type in WITHOUT_FP64 else device
