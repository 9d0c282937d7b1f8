"""Placing a trained model on a device for inference."""

import torch

from bertc.ir.program.run import RunPrecision
from bertc.machine.machine import make_plan
from bertc.model import Model


def placed(model: Model, device: str, precision: RunPrecision | None = None) -> None:
    """Move a model to a device, to compute in a precision; None: as its run did, or fast there."""
    update = {"device": device, "precision": precision or model.resolved.run.precision}
    run = model.resolved.run.model_copy(update=update)
    plan = make_plan(model.resolved.model_copy(update={"run": run}))
    model.to(plan.device).compute_dtype = (
        torch.bfloat16 if plan.precision == "bf16" else torch.float32
    )
