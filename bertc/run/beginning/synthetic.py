"""A training step on rows of random tokens instead of text.

Axes: b rows, s sequence, m examples of a row; v vocabulary.
"""

import numpy as np
import torch

from bertc.cost.planning.plan import Plan
from bertc.ir.program import Resolved, Stage, model_weights, trained_names
from bertc.learn.objectives import VocabTensors
from bertc.learn.optim.optimizers import make_rule, zero_moments
from bertc.learn.step.feed import cumulative
from bertc.learn.step.objective import make_objective
from bertc.learn.step.step import TrainStep
from bertc.model import Model
from bertc.run.beginning.teachers import frozen_networks
from bertc.text.batches.batch import RawBatch, empty_batch

SPECIALS = 5
"""Ids below this are special tokens, in place of a vocabulary not yet learned."""
PAD, CLS, SEP, MASK = 0, 2, 3, 4
TEXT_TOKENS = 2**20


def first_step(resolved: Resolved, model: Model, plan: Plan) -> TrainStep:
    """The step of the first stage, as at the start of a run."""
    stage, named = resolved.stages[0], dict(model.named_parameters())
    learning = trained_names(stage)
    for name, weight in named.items():
        weight.requires_grad_(name in learning)
    for network in model.networks():
        network.recompute = plan.recompute[0]
    table = model_weights(resolved)
    moments = zero_moments(stage.optimizer, table, named)
    rule = make_rule(stage.optimizer, table, named, moments, 0, plan.compile, None, plan.precision)
    objective = make_objective(model, stage, plan.compile, frozen_networks(stage, model))
    vocab = uniform_vocab(resolved.encoder.vocab_size, torch.device(plan.device))
    return TrainStep(model, stage, vocab, rule, objective, plan.microbatches[0])


class RandomText:
    """Batches of random tokens; each row is filled by one example."""

    def __init__(self, stage: Stage, vocab_size: int) -> None:
        self._stage, self.batch, self.seq = stage, stage.batch, stage.seq
        draw, encoder = np.random.default_rng(0), stage.encoder
        if len(encoder.table.clusters(vocab_size, encoder.embedding)) == 1:
            self._ids = draw.integers(SPECIALS, vocab_size, TEXT_TOKENS, dtype=np.int32)
        else:  # by Zipf's law, since the rarer ones, of higher ids, cost less
            cumulative_v = np.cumsum(1 / np.arange(SPECIALS + 1, vocab_size + 1))
            places = np.searchsorted(cumulative_v, draw.uniform(0, cumulative_v[-1], TEXT_TOKENS))
            self._ids = (SPECIALS + places).astype(np.int32)

    def train(self, step: int, rows: slice | None = None, steps: int = 1) -> RawBatch:
        """The batch of a step, or of several steps, or some rows of each."""
        seq, stage = self.seq, self._stage
        numbers = np.arange(step * self.batch, (step + steps) * self.batch, dtype=np.int64)
        examples_b = numbers.reshape(steps, self.batch)[:, rows or slice(None)].reshape(-1)
        batch = empty_batch(len(examples_b), seq, stage.texts, PAD)
        batch.token_ids[:] = self._ids.take(examples_b[:, None] * seq + np.arange(seq), mode="wrap")
        if stage.pairs != "none":
            batch.token_ids[:, seq // 2] = SEP
            batch.segment_ids[:, seq // 2 + 1 :] = 1
        batch.token_ids[:, 0], batch.token_ids[:, -1] = CLS, SEP
        batch.lengths[:], batch.example_ids[:] = seq, examples_b
        batch.starts[:, 0], batch.pair_labels[:, 0] = 0, examples_b % 2
        batch.backward[:] = examples_b % stage.format.directions
        if stage.translates:
            batch.languages[::2, 1] = 1
        return batch


def uniform_vocab(vocab_size: int, device: torch.device) -> VocabTensors:
    """A vocabulary of equally frequent whole words, its first ids special."""
    special_v = torch.arange(vocab_size) < SPECIALS
    return VocabTensors(
        size=vocab_size, pad=PAD, cls=CLS, sep=SEP, mask=MASK,
        word_start=torch.ones_like(special_v, device=device), special=special_v.to(device),
        unigram_cdf=cumulative((~special_v).double()).to(device),
        frequency=torch.ones(vocab_size, dtype=torch.float64, device=device),
    )  # fmt: skip
