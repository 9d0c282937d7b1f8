"""One stage's training step on random rows, without a corpus: what the memory benches run."""

import torch

from bertc.ir.resolved import Resolved, Stage, model_weights
from bertc.nn import build
from bertc.objectives import Inputs, Tables
from bertc.train.optimizers import make_rule, zero_moments
from bertc.train.step import TrainStep, make_objective

SPECIALS = 5


def make_step(resolved: Resolved, microbatch: int, compiled: bool = False) -> TrainStep:
    """The step of the first stage, with weights and moments of its own, on the CPU."""
    stage = resolved.stages[0]
    model = build(resolved).train()
    model.compute_dtype = torch.bfloat16 if resolved.run.precision == "bf16" else torch.float32
    model.encoder.recompute = resolved.run.recompute == "on"
    weights = dict(model.named_parameters())
    rule = make_rule(
        stage.optimizer, model_weights(resolved), weights, zero_moments(weights), 0, compiled
    )
    objective = make_objective(model, stage, resolved.encoder, compiled)
    tables = _tables(resolved.encoder.vocab_size)
    return TrainStep(model, stage, tables, rule, objective, microbatch, resolved.run.seed)


def random_rows(stage: Stage, vocab: int, first: int = 0) -> Inputs:
    """A full batch of random ordinary tokens between two special ones, without padding."""
    generator = torch.Generator().manual_seed(first)
    token_ids = torch.randint(SPECIALS, vocab, (stage.batch, stage.seq), generator=generator)
    token_ids[:, 0], token_ids[:, -1] = 2, 3
    zeros = torch.zeros(stage.batch, dtype=torch.long)
    return Inputs(
        token_ids=token_ids,
        segment_ids=torch.zeros_like(token_ids),
        lengths=torch.full_like(zeros, stage.seq),
        example_ids=torch.arange(first, first + stage.batch),
        copies=zeros,
        starts=zeros[:, None],
        pair_labels=zeros[:, None],
    )


def _tables(vocab: int) -> Tables:
    """A vocabulary whose first ids are special and whose tokens are whole words, all as common."""
    special = torch.arange(vocab) < SPECIALS
    return Tables(
        size=vocab, pad=0, cls=2, sep=3, mask=4, special=special,
        word_start=torch.ones_like(special), unigram_cdf=torch.linspace(0, 1, vocab),
    )  # fmt: skip
