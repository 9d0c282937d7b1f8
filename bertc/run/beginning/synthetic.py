"""A training step on rows of random tokens instead of text.

Axes: b rows, s sequence, m examples of a row; v vocabulary.
"""

import numpy as np
import torch

from bertc.cost.planning.plan import Plan
from bertc.ir.program.model import model_weights, trained_names
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.learn.objectives import VocabTensors
from bertc.learn.optim.optimizers import make_rule, zero_moments
from bertc.learn.step.feed import cumulative
from bertc.learn.step.objective import make_objective
from bertc.learn.step.step import TrainStep
from bertc.model import Model
from bertc.run.beginning.teachers import frozen_networks
from bertc.text.batches.batch import RawBatch

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
        seq = self.seq
        numbers = np.arange(step * self.batch, (step + steps) * self.batch, dtype=np.int64)
        examples_b = numbers.reshape(steps, self.batch)[:, rows or slice(None)].reshape(-1)
        batch = len(examples_b)
        places_bs = examples_b[:, None] * seq + np.arange(seq)
        token_ids_bs = self._ids.take(places_bs, mode="wrap")
        segment_ids_bs = np.zeros((batch, seq), np.uint8)
        if self._stage.pairs != "none":
            token_ids_bs[:, seq // 2] = SEP
            segment_ids_bs[:, seq // 2 + 1 :] = 1
        token_ids_bs[:, 0], token_ids_bs[:, -1] = CLS, SEP
        starts_bm = np.full((batch, self._stage.texts), seq, np.int32)
        starts_bm[:, 0] = 0
        labels_bm = np.zeros((batch, self._stage.texts), np.int64)
        labels_bm[:, 0] = examples_b % 2
        languages_b2 = np.zeros((batch, 2), np.uint8)
        if self._stage.translates:
            languages_b2[::2, 1] = 1
        return RawBatch(
            token_ids=token_ids_bs, segment_ids=segment_ids_bs,
            lengths=np.full(batch, seq, np.int32), example_ids=examples_b,
            copies=np.zeros(batch, np.int64), starts=starts_bm, pair_labels=labels_bm,
            languages=languages_b2, following=np.full(batch, -1, np.int32),
            backward=(examples_b % self._stage.format.directions).astype(np.uint8),
        )  # fmt: skip


def uniform_vocab(vocab_size: int, device: torch.device) -> VocabTensors:
    """A vocabulary of equally frequent whole words, its first ids special."""
    special_v = torch.arange(vocab_size) < SPECIALS
    return VocabTensors(
        size=vocab_size, pad=PAD, cls=CLS, sep=SEP, mask=MASK,
        word_start=torch.ones_like(special_v, device=device), special=special_v.to(device),
        unigram_cdf=cumulative((~special_v).double()).to(device),
        frequency=torch.ones(vocab_size, dtype=torch.float64, device=device),
    )  # fmt: skip
