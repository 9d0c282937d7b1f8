"""A trained model put to use: where it is computed, and what it reads with."""

from pathlib import Path

import torch

from bertc.data import Vocabulary
from bertc.data.existing import load_vocabulary
from bertc.ir.data import TokenizerFile
from bertc.nn import Model
from bertc.train.machine import make_plan


def vocabulary_of(run: Path) -> Vocabulary:
    """A run keeps its tokenizer in a folder of its own, a model folder beside its weights."""
    kept = run / "tokenizer"
    return load_vocabulary(TokenizerFile(path=str(kept if kept.is_dir() else run)))


def placed(model: Model, device: str) -> None:
    """Put a model where it is used, in the arithmetic that is fast there."""
    run = model.resolved.run.model_copy(update={"device": device})
    plan = make_plan(model.resolved.model_copy(update={"run": run}))
    model.to(plan.device).compute_dtype = (
        torch.bfloat16 if plan.precision == "bf16" else torch.float32
    )
