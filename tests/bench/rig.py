"""One stage's training step on random rows, without a corpus: what the memory benches run."""

import torch

from bertc.cost.planning.plan import Plan
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.learn.objectives import Inputs
from bertc.learn.step.step import TrainStep
from bertc.model import build
from bertc.run.beginning.synthetic import CLS, SEP, SPECIALS, first_step

SHIPPED = tuple(
    f"extends {name} batch={batch}"
    for name, batch in (
        ("bert-tiny", 64), ("bert-mini", 32), ("bert-small", 16), ("bert-medium", 16),
        ("bert-base", 4), ("roberta-base", 2), ("albert-base", 4), ("electra-small", 4),
        ("spanbert-base", 2), ("xlnet-base", 2), ("transformer-xl-enwik8-12", 2), ("gpt-small", 2),
    )
)  # fmt: skip
"""Shipped specs in batches that small machines can train."""


def make_step(resolved: Resolved, microbatch: int, compiled: bool = False) -> TrainStep:
    """The step of the first stage, with weights and moments of its own, on the CPU."""
    model = build(resolved).train()
    precision = "bf16" if resolved.run.precision == "bf16" else "fp32"
    model.compute_dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    recompute = resolved.run.recompute == "on"
    return first_step(
        resolved, model, Plan("cpu", precision, (microbatch,), (recompute,), compiled, ())
    )


def random_rows(stage: Stage, vocab: int, first: int = 0) -> Inputs:
    """A full batch of random ordinary tokens between two special ones, without padding."""
    generator = torch.Generator().manual_seed(first)
    token_ids = torch.randint(SPECIALS, vocab, (stage.batch, stage.seq), generator=generator)
    token_ids[:, 0], token_ids[:, -1] = CLS, SEP
    zeros = torch.zeros(stage.batch, dtype=torch.long)
    return Inputs(
        token_ids=token_ids,
        segment_ids=torch.zeros_like(token_ids),
        lengths=torch.full_like(zeros, stage.seq),
        example_ids=torch.arange(first, first + stage.batch),
        copies=zeros,
        starts=zeros[:, None],
        pair_labels=zeros[:, None],
        languages=zeros[:, None].expand(-1, 2),
        following=zeros - 1,
        backward=torch.arange(stage.batch) % stage.format.directions,
    )
