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
    names, device = kinds(stage), nats_v.device
    sums_t, hits_t, counted_t, examples = _zeros(names), _zeros(names), _zeros(names), 0
    guessed = asked = 0.0
    model.eval()
    try:
        for batch in batches:
            ranks.stop.check()
            inputs = to_inputs(batch, device)
            own = Inputs(*(tensor[ranks.rows(len(batch.lengths))] for tensor in inputs))
            columns = corrupt(stage, own, tables, mask_key(seed))
            counts_t = counts(stage, [columns])
            _, statistics = objective(columns, torch.ones_like(counts_t))
            # One wait for the device a batch.
            for total, part in zip(
                (sums_t, hits_t, counted_t),
                torch.stack([*statistics, counts_t]).tolist(),
                strict=True,
            ):
                for name, value in zip(names, part, strict=True):
                    total[name] += value
            if "mlm" in names and columns.mlm is not None:
                cost, number = _guess(columns.mlm, nats_v)
                guessed, asked = guessed + cost, asked + number
            examples += len(batch.lengths)
    finally:
        model.train()
    guessed, asked = _of_all(ranks, device, (sums_t, hits_t, counted_t), (guessed, asked))
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


def _of_all(
    ranks: Ranks,
    device: torch.device,
    by_name: Iterable[dict[str, float]],
    numbers: tuple[float, float],
) -> tuple[float, float]:
    """Make sums those of all processes: dicts of them in place, and two numbers."""
    dicts = tuple(by_name)
    every = [*(value for one in dicts for value in one.values()), *numbers]
    totals = torch.tensor(every, dtype=torch.float64, device=device)
    ranks.add(totals)
    found = iter(totals.tolist())
    for one in dicts:
        one.update({name: next(found) for name in one})
    return next(found), next(found)


def _zeros(names: tuple[str, ...]) -> dict[str, float]:
    return dict.fromkeys(names, 0.0)


def _guess(masked: Predictions, nats_v: Tensor) -> tuple[float, float]:
    """Summed cost of the masked tokens under the unigram distribution, and their number."""
    weights = masked.weights.double()
    return (weights * nats_v[masked.targets]).sum().item(), weights.sum().item()
