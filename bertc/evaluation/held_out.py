"""Held-out evaluation: loss and accuracy of each objective, beside trivial baselines.

Axes: t terms of the objective, v vocabulary.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from bertc.data import Progress, RawBatch, TextData, Vocabulary
from bertc.distributed.engines import Objective
from bertc.distributed.process_group import ProcessGroup
from bertc.host.exact import WITHOUT_FP64, exact, preparing
from bertc.ir.data import RUNNING
from bertc.ir.learning.objective import Term
from bertc.ir.program.stage import Stage
from bertc.nn import Memory, Model
from bertc.objectives import Inputs, MicroBatch, VocabTensors, corrupt, mask_key, tensors_of
from bertc.step.feed import on_device, split, to_inputs
from bertc.step.memory import beginning
from bertc.step.objective import counts, divisors, kinds, remembering, term_weights
from bertc.tasks.by_class import ByClass


@dataclass(frozen=True)
class Evaluation:
    """Means over the held-out predictions: losses in nats, accuracies as fractions of 1.

    ``unigram_loss`` is the cross-entropy of the predicted tokens under the training text's token
    frequencies: the loss of a model that has learned only those. None without language modelling;
    ``unigram_losses`` has it by objective. ``base_rate`` is the accuracy, in binary objectives, of
    always answering the more frequent class.
    """

    loss: float
    losses: dict[str, float]
    accuracy: dict[str, float]
    examples: int
    unigram_loss: float | None = None
    unigram_losses: dict[str, float] = field(default_factory=dict)
    base_rate: dict[str, float] = field(default_factory=dict)
    languages: dict[str, dict[str, float]] = field(default_factory=dict)
    """Losses by language (``en``) or translation direction (``en-fr``), if there are several."""
    scores: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    """Scores of tasks, by task, part and metric."""
    always: dict[str, dict[str, str]] = field(default_factory=dict)
    """The answer given to every example of a part, by task and part, if they are all equal.

    It is a label, a tag, or "" where no span was found: a sign that the model has learned nothing
    of its examples yet."""
    classes: dict[str, dict[str, ByClass]] = field(default_factory=dict)
    """Scores by class, by task and part; not in metrics lines."""
    predictions: int = 0
    """Predicted tokens, over all objectives."""
    characters: int = 0
    """Characters that these stand for; 0 if unknown, or not asked for."""

    def fields(self) -> dict[str, Any]:
        """The fields of a metrics line."""
        every, sizes = ("loss", "losses", "accuracy"), ("predictions", "characters", "classes")
        items = {n: v for n, v in asdict(self).items() if n not in sizes}.items()
        return {name: value for name, value in items if name in every or value not in (None, {})}


def score_lines(evaluation: Evaluation) -> list[str]:
    """The scores of tasks, one line per part."""
    same = always_lines(evaluation)
    return [
        f"{task} {part}: "
        + ", ".join(f"{metric} {value:.4f}" for metric, value in values.items())
        + (f" ({same[task, part]})" if (task, part) in same else "")
        for task, parts in evaluation.scores.items()
        for part, values in parts.items()
    ]


def always_lines(evaluation: Evaluation) -> dict[tuple[str, str], str]:
    """A remark by task and part where all examples got the same answer."""
    return {
        (task, part): f"every example got {f'the answer `{said}`' if said else 'no answer'}"
        for task, parts in evaluation.always.items()
        for part, said in parts.items()
    }


def unigram_nats(vocabulary: Vocabulary, training_tokens: int, device: torch.device) -> Tensor:
    """-log p of every token (v,) in nats, p its add-one smoothed frequency in the training text."""
    frequency_v = torch.from_numpy(vocabulary.unigram).double()
    count_v = frequency_v * training_tokens + 1
    nats_v = -torch.log(count_v / count_v.sum())
    return (nats_v.float() if device.type in WITHOUT_FP64 else nats_v).to(device)


STREAM_ROWS = 8
"""Rows of held-out text if it is read as streams: few, so that each has a long memory."""


def heldout_rows(stage: Stage, microbatch: int, ranks: ProcessGroup) -> int:
    """Number of held-out rows that all processes together evaluate at once."""
    if stage.format.kind in RUNNING:
        return min(stage.batch, max(STREAM_ROWS, ranks.world.size))
    return min(microbatch * ranks.world.size, stage.batch)


def counted(data: TextData, rows: int, examples: int, progress: Progress) -> Iterator[RawBatch]:
    """Held-out batches of ``rows`` rows, about ``examples`` in all; advances ``progress``."""
    progress.begin("evaluating", data.heldout_rows(rows, examples), "rows")
    for batch in data.heldout(rows, examples):
        yield batch
        progress.advance(len(batch.lengths))
    progress.end()


@torch.no_grad()
def evaluate(
    model: Model,
    stage: Stage,
    objective: Objective,
    batches: Iterable[RawBatch],
    vocab: VocabTensors,
    costs: Sequence[Tensor],
    microbatch: int,
    seed: int,
    ranks: ProcessGroup,
) -> Evaluation:
    """Evaluate on all batches, each of one language; every process takes its share of the rows.

    Masks are keyed by example, so every evaluation uses the same ones. A term without held-out
    examples has no loss. The memory of a stage is emptied before the first batch of a language and
    passed on from batch to batch. ``costs`` (v,) of tokens: nats by frequency, perhaps characters.

    Raises:
        StoppedError: if a stop was requested meanwhile.
    """
    stage = stage.held_out
    # Per language (5 or 6, t): loss sums, correct, positives, counts, unigram losses, characters.
    totals: dict[str, Tensor] = {}
    memories: dict[str, list[Memory | None]] = {}
    examples, device, prepared = 0, costs[0].device, preparing(costs[0].device)
    model.eval()
    try:
        for batch in batches:
            ranks.stop.check()
            inputs = to_inputs(batch, prepared)
            local = Inputs(*(tensor[ranks.rows(len(batch.lengths))] for tensor in inputs))
            micro_batch = on_device(corrupt(stage, local, vocab, mask_key(seed)), device)
            counts_t = counts(stage, [micro_batch])
            # Each of several processes evaluates its rows at once, so that all make as many calls.
            parts = [micro_batch] if ranks.is_distributed else split(micro_batch, microbatch)
            language = named(model.resolved.languages, *batch.languages[0].tolist())
            if language not in memories:
                rows = (len(part.originals) for part in parts)
                memories[language] = [beginning(model, stage, n, device) for n in rows]
            statistics = _scored(objective, parts, memories[language], torch.ones_like(counts_t))
            guessed = [_guesses(stage, micro_batch, cost_v) for cost_v in costs]
            sums = torch.stack([*exact(statistics), exact(counts_t), *guessed])
            totals[language] = totals.get(language, 0) + sums
            examples += len(batch.lengths)
    finally:
        model.train()
    every = torch.stack(list(totals.values()))
    ranks.add(every)
    every = every.cpu()  # the only device synchronisation of an evaluation
    return _evaluation(stage, dict(zip(totals, every, strict=True)), examples)


def _evaluation(stage: Stage, by_language: dict[str, Tensor], examples: int) -> Evaluation:
    whole = torch.stack(list(by_language.values())).sum(0)
    losses = _means(stage, whole)
    weights = dict(zip(kinds(stage), term_weights(stage), strict=True))
    hits, yes, guessed = (
        dict(zip(kinds(stage), (whole[row] / whole[3].clamp(min=1)).tolist(), strict=True))
        for row in (1, 2, 4)
    )
    scored = {term.name: term.objective.scored for term in stage.objective}
    of_tokens = [scored[name] == "tokens" for name in kinds(stage)]
    predicted = whole[3][of_tokens].sum().item()
    each = {name: _means(stage, total) for name, total in sorted(by_language.items())}
    return Evaluation(
        loss=math.fsum(weights[name] * value for name, value in losses.items()),
        losses=losses,
        accuracy={name: hits[name] for name in losses if scored[name] != "likeness"},
        examples=examples,
        unigram_loss=whole[4][of_tokens].sum().item() / predicted if predicted else None,
        unigram_losses={name: guessed[name] for name in losses if scored[name] == "tokens"},
        base_rate={n: max(yes[n], 1 - yes[n]) for n in losses if scored[n] == "binary"},
        languages=each if len(each) > 1 else {},
        predictions=round(predicted),
        characters=round(whole[5].sum().item()) if len(whole) > 5 else 0,
    )


def _scored(
    objective: Objective,
    parts: list[MicroBatch],
    memories: list[Memory | None],
    factors_t: Tensor,
) -> Tensor:
    """Loss sums, correct answers and positives (3, t) of a batch; updates ``memories`` in place."""
    total = torch.zeros(3, len(factors_t), device=factors_t.device)
    for index, part in enumerate(parts):
        _, statistics, memories[index] = objective(remembering(part, memories[index]), factors_t)
        total = total + statistics
    return total


def named(languages: tuple[str, ...], first: int, second: int) -> str:
    """Name a language as ``en``, a direction as ``en-fr``; ``other`` is text without a language."""
    source, target = ((*languages, "other")[number] for number in (first, second))
    return source if first == second else f"{source}-{target}"


def _means(stage: Stage, total: Tensor) -> dict[str, float]:
    """Mean loss of every term that has predictions, from its ``totals``."""
    sums, _, _, counted, *_ = total.tolist()
    divided_by = divisors(stage, total[3]).tolist()
    terms = zip(kinds(stage), sums, divided_by, counted, strict=True)
    return {name: value / part for name, value, part, count in terms if count}


def _guesses(stage: Stage, micro_batch: MicroBatch, cost_v: Tensor) -> Tensor:
    """Summed cost (t,) of the tokens that each term predicts."""
    return torch.stack([_guess(term, micro_batch, cost_v) for term in stage.objective])


def _guess(term: Term, micro_batch: MicroBatch, cost_v: Tensor) -> Tensor:
    """Summed cost, in nats or characters, of the tokens that a term predicts; else 0."""
    cost = tensors_of(term.objective).baseline(micro_batch.terms[term.name], cost_v)
    return cost_v.new_zeros(()) if cost is None else cost
