"""One stage's training step on random rows, without a corpus: what the memory benches run."""

import torch

from bertc.cost.planning.plan import Plan
from bertc.ir.program.resolved import Resolved
from bertc.learn.objectives import Inputs
from bertc.learn.step.feed import to_inputs
from bertc.learn.step.step import TrainStep
from bertc.model import build
from bertc.run.beginning.synthetic import RandomText, first_step

SHIPPED = tuple(
    f"extends {name} batch={batch}"
    for name, batch in (
        ("bert-tiny", 64), ("bert-mini", 32), ("bert-small", 16), ("bert-medium", 16),
        ("bert-base", 4), ("roberta-base", 2), ("albert-base", 4), ("electra-small", 4),
        ("spanbert-base", 2), ("xlnet-base", 2), ("transformer-xl-enwik8-12", 2), ("gpt-small", 2),
    )
)  # fmt: skip
"""Shipped specs in batches that small machines can train."""


def make_step(
    resolved: Resolved, microbatch: int, compiled: bool = False, device: str = "cpu"
) -> TrainStep:
    """The step of the first stage, with new weights and moments."""
    model = build(resolved, device).train()
    precision = "bf16" if resolved.run.precision == "bf16" else "fp32"
    model.compute_dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    recompute = (resolved.run.recompute == "on",)
    plan = Plan(device, precision, (microbatch,), recompute, compiled, ())  # type: ignore[arg-type]
    return first_step(resolved, model, plan)


def random_rows(resolved: Resolved) -> Inputs:
    """A full batch of random tokens of the first stage, on the CPU."""
    text = RandomText(resolved.stages[0], resolved.encoder.vocab_size)
    return to_inputs(text.train(0), torch.device("cpu"))
