"""The systems under test, and bertc among them, with the step that a run would take."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal

import torch

from bertc.lab_api import Stepper

Precision = Literal["fp32", "bf16"]
Step = Callable[[], float]
"""One optimiser step; returns the seconds that it waited for its data."""


@dataclass(frozen=True)
class Contender:
    """A training step of a program to be timed.

    ``open`` allocates it, ``turn`` surrounds the timed steps.
    """

    name: str
    precision: Precision
    compiled: bool
    open: Callable[[], AbstractContextManager[Step]]
    turn: Callable[[], AbstractContextManager[None]]
    stepper: Stepper


def bertc(stepper: Stepper, name: str) -> Contender:
    """The step that ``train`` runs under a plan: fetch, mask, forward, backward, clip, update."""
    plan = stepper.plan
    return Contender(name, plan.precision, plan.compile, stepper.open, stepper.turn, stepper)


def warm_up_torch(device: torch.device, contender: Contender) -> Stepper:
    """A small model that has warmed up torch, so that loading kernels is not timed.

    The code of its kernels and their workspaces are some 25 MiB, whatever the model. Libraries read
    their settings at first use, so this runs inside the contender's ``turn``.
    """
    small = Stepper.small(device.type, contender.precision)
    with contender.turn(), small.open() as step:
        step()
    return small
