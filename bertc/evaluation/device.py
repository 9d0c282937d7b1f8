"""Placing a trained model on a device for inference."""

import torch

from bertc.host.machine import make_plan
from bertc.nn import Model


def placed(model: Model, device: str) -> None:
    """Move a model to a device, in the precision that is fast there."""
    run = model.resolved.run.model_copy(update={"device": device})
    plan = make_plan(model.resolved.model_copy(update={"run": run}))
    model.to(plan.device).compute_dtype = (
        torch.bfloat16 if plan.precision == "bf16" else torch.float32
    )
