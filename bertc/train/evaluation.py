"""Held-out evaluation: loss and accuracy of each objective, beside what guessing would reach.

Axes: t terms of the objective, v vocabulary.
"""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from bertc.data import RawBatch, Vocabulary
from bertc.ir.data import RUNNING
from bertc.ir.resolved import Stage
from bertc.nn import Memory, Model
from bertc.objectives import Columns, Inputs, NextTokens, Predictions, Tables, corrupt, mask_key
from bertc.train.engines import Objective
from bertc.train.feed import split, to_inputs
from bertc.train.ranks import Ranks
from bertc.train.remembered import beginning
from bertc.train.step import counts, divisors, kinds, remembering, term_weights


@dataclass(frozen=True)
class Evaluation:
    """Means over the held-out predictions, in nats; ``accuracy`` is a part of 1.

    ``unigram_loss`` is the cross-entropy of the very tokens that language modelling was asked for,
    under their frequencies in the training text: what a model reaches that has learned nothing but
    how common tokens are. None without language modelling.
    """

    loss: float
    losses: dict[str, float]
    accuracy: dict[str, float]
    unigram_loss: float | None
    examples: int
    languages: dict[str, dict[str, float]] = field(default_factory=dict)
    """The losses by language (``en``) or direction (``en-fr``), where there are several."""

    def fields(self) -> dict[str, Any]:
        """The fields of a line of metrics."""
        found = {name: value for name, value in asdict(self).items() if value is not None}
        return found if self.languages else {k: v for k, v in found.items() if k != "languages"}


def unigram_nats(vocabulary: Vocabulary, training_tokens: int) -> Tensor:
    """-log p of every token (v,), p its frequency in the training text with one added to each."""
    frequency_v = torch.from_numpy(vocabulary.unigram).double()
    count_v = frequency_v * training_tokens + 1
    return -torch.log(count_v / count_v.sum())


STREAM_ROWS = 8
"""Rows that held-out text is read in where it runs on: few, so that each has much to remember."""


def heldout_rows(stage: Stage, microbatch: int, ranks: Ranks) -> int:
    """Held-out rows read at once by all processes together."""
    if stage.format.kind in RUNNING:
        return min(stage.batch, max(STREAM_ROWS, ranks.world.size))
    return min(microbatch * ranks.world.size, stage.batch)


@torch.no_grad()
def evaluate(
    model: Model,
    stage: Stage,
    objective: Objective,
    batches: Iterable[RawBatch],
    tables: Tables,
    nats_v: Tensor,
    microbatch: int,
    seed: int,
    ranks: Ranks,
) -> Evaluation:
    """Evaluate on all of ``batches``, each of one language, of which each process reads its rows.

    Masks are keyed by example, so they are the same every time. A term that nothing was held out
    for has no loss. Where a stage has a memory it is empty before the first batch of a language,
    and each batch goes on from the one before.

    Raises:
        StoppedError: if someone asked the run to stop meanwhile.
    """
    totals: dict[str, Tensor] = {}  # by language (3, t): sums, hits, counts
    memories: dict[str, list[Memory | None]] = {}
    examples, device = 0, nats_v.device
    guesses = torch.zeros(2, dtype=torch.float64, device=device)
    # Masks may be there for a generator that is trained no more.
    predicts = not {"mlm", "tlm", "clm", "plm"}.isdisjoint(kinds(stage))
    model.eval()
    try:
        for batch in batches:
            ranks.stop.check()
            inputs = to_inputs(batch, device)
            own = Inputs(*(tensor[ranks.rows(len(batch.lengths))] for tensor in inputs))
            columns = corrupt(stage, own, tables, mask_key(seed))
            counts_t = counts(stage, [columns])
            # Of several processes each reads its few rows at once: all are to meet as often.
            parts = [columns] if ranks.many else split(columns, microbatch)
            language = named(model.resolved.languages, *batch.languages[0].tolist())
            if language not in memories:
                rows = (len(part.originals) for part in parts)
                memories[language] = [beginning(model, stage, n, device) for n in rows]
            statistics = _scored(objective, parts, memories[language], torch.ones_like(counts_t))
            found = torch.stack([*statistics, counts_t]).double()
            totals[language] = totals.get(language, 0) + found
            if predicts:
                guesses += _guess(columns.mlm or columns.clm or columns.plm, nats_v)
            examples += len(batch.lengths)
    finally:
        model.train()
    every = torch.cat([guesses, *(total.flatten() for total in totals.values())])
    ranks.add(every)
    every = every.cpu()  # the one wait for the device in an evaluation
    guessed, asked = every[:2].tolist()
    by_language = dict(zip(totals, every[2:].view(len(totals), 3, -1), strict=True))
    unigram_loss = guessed / asked if asked else None
    return _evaluation(stage, by_language, unigram_loss, examples)


def _evaluation(
    stage: Stage, by_language: dict[str, Tensor], unigram_loss: float | None, examples: int
) -> Evaluation:
    whole = torch.stack(list(by_language.values())).sum(0)
    losses = _means(stage, whole)
    weights = dict(zip(kinds(stage), term_weights(stage), strict=True))
    hits = dict(zip(kinds(stage), (whole[1] / whole[2].clamp(min=1)).tolist(), strict=True))
    each = {name: _means(stage, total) for name, total in sorted(by_language.items())}
    return Evaluation(
        loss=math.fsum(weights[name] * value for name, value in losses.items()),
        losses=losses,
        accuracy={name: hits[name] for name in losses},
        unigram_loss=unigram_loss,
        examples=examples,
        languages=each if len(each) > 1 else {},
    )


def _scored(
    objective: Objective,
    parts: list[Columns],
    memories: list[Memory | None],
    factors_t: Tensor,
) -> Tensor:
    """Sums and hits (2, t) of the micro-batches of a batch; their memories move on in place."""
    total = torch.zeros(2, len(factors_t), device=factors_t.device)
    for index, part in enumerate(parts):
        _, statistics, memories[index] = objective(remembering(part, memories[index]), factors_t)
        total = total + statistics
    return total


def named(languages: tuple[str, ...], first: int, second: int) -> str:
    """A language as ``en``, a direction as ``en-fr``; text of no language is ``other``."""
    one, two = ((*languages, "other")[number] for number in (first, second))
    return one if first == second else f"{one}-{two}"


def _means(stage: Stage, total: Tensor) -> dict[str, float]:
    """The loss of every term that has predictions, from (3, t) sums, hits and counts."""
    sums, _, counted = total.tolist()
    divided_by = divisors(stage, total[2]).tolist()
    terms = zip(kinds(stage), sums, divided_by, counted, strict=True)
    return {name: value / part for name, value, part, count in terms if count}


def _guess(asked: Predictions | NextTokens | None, nats_v: Tensor) -> Tensor:
    """Summed cost of these tokens under the unigram distribution, and their number (2,)."""
    if asked is None:
        return nats_v.new_zeros(2)
    weights = asked.weights.double()
    return torch.stack([(weights * nats_v[asked.targets]).sum(), weights.sum()])
