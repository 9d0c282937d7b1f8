"""Held-out evaluation: loss and accuracy of each objective, beside what guessing would reach.

Axes: t terms of the objective, v vocabulary.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from bertc.data import RawBatch, Vocabulary
from bertc.ir.resolved import Stage
from bertc.nn import Model
from bertc.objectives import Inputs, Predictions, Tables, corrupt, mask_key
from bertc.train.engines import Objective
from bertc.train.feed import to_inputs
from bertc.train.ranks import Ranks
from bertc.train.step import counts, divisors, kinds, term_weights


@dataclass(frozen=True)
class Evaluation:
    """Means over the held-out predictions, in nats; ``accuracy`` is a part of 1.

    ``unigram_loss`` is the cross-entropy of the very tokens that masked language modelling was
    asked for, under their frequencies in the training text: what a model reaches that has
    learned nothing but how common tokens are. None without masked language modelling.
    """

    loss: float
    losses: dict[str, float]
    accuracy: dict[str, float]
    unigram_loss: float | None
    examples: int

    def fields(self) -> dict[str, Any]:
        """The fields of a line of metrics."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def unigram_nats(vocabulary: Vocabulary, training_tokens: int) -> Tensor:
    """-log p of every token (v,), p its frequency in the training text with one added to each."""
    frequency_v = torch.from_numpy(vocabulary.unigram).double()
    count_v = frequency_v * training_tokens + 1
    return -torch.log(count_v / count_v.sum())


@torch.no_grad()
def evaluate(
    model: Model,
    stage: Stage,
    objective: Objective,
    batches: Iterable[RawBatch],
    tables: Tables,
    nats_v: Tensor,
    seed: int,
    ranks: Ranks,
) -> Evaluation:
    """Evaluate on all of ``batches``, of which each process reads its rows.

    Masks are keyed by example, so they are the same every time.

    Raises:
        StoppedError: if someone asked the run to stop meanwhile.
    """
    names, device, examples = kinds(stage), nats_v.device, 0
    totals = torch.zeros(3 * len(names) + 2, dtype=torch.float64, device=device)
    model.eval()
    try:
        for batch in batches:
            ranks.stop.check()
            inputs = to_inputs(batch, device)
            own = Inputs(*(tensor[ranks.rows(len(batch.lengths))] for tensor in inputs))
            columns = corrupt(stage, own, tables, mask_key(seed))
            counts_t = counts(stage, [columns])
            _, statistics = objective(columns, torch.ones_like(counts_t))
            found = torch.stack([*statistics, counts_t]).double().flatten()
            totals += torch.cat([found, _guess(columns.mlm, nats_v)])
            examples += len(batch.lengths)
    finally:
        model.train()
    ranks.add(totals)
    # The one wait for the device in an evaluation.
    *flat, guessed, asked = totals.tolist()
    terms = len(names)
    sums_t, hits_t, counted_t = (
        dict(zip(names, flat[first : first + terms], strict=True))
        for first in (0, terms, 2 * terms)
    )
    divided_by = divisors(stage, torch.tensor([counted_t[name] for name in names])).tolist()
    losses = {name: sums_t[name] / part for name, part in zip(names, divided_by, strict=True)}
    return Evaluation(
        loss=math.fsum(
            w * losses[name] for w, name in zip(term_weights(stage), names, strict=True)
        ),
        losses=losses,
        accuracy={name: hits_t[name] / max(1.0, counted_t[name]) for name in names},
        unigram_loss=guessed / asked if asked else None,
        examples=examples,
    )


def _guess(masked: Predictions | None, nats_v: Tensor) -> Tensor:
    """Summed cost of the masked tokens under the unigram distribution, and their number (2,)."""
    if masked is None:
        return nats_v.new_zeros(2)
    weights = masked.weights.double()
    return torch.stack([(weights * nats_v[masked.targets]).sum(), weights.sum()])
