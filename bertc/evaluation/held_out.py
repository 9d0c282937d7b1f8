"""Held-out evaluation: loss and accuracy of each objective, beside what guessing would reach.

Axes: t terms of the objective, v vocabulary.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from bertc.data import Progress, RawBatch, TextData, Vocabulary
from bertc.distributed.engines import Objective
from bertc.distributed.process_group import ProcessGroup
from bertc.ir.data import RUNNING
from bertc.ir.learning.objective import Term
from bertc.ir.program.resolved import Stage
from bertc.nn import Memory, Model
from bertc.nn.exact import WITHOUT_FP64, exact, preparing
from bertc.objectives import Columns, Inputs, Tables, corrupt, mask_key, tensors_of
from bertc.step.feed import on_device, split, to_inputs
from bertc.step.memory import beginning
from bertc.step.objective import counts, divisors, kinds, remembering, term_weights


@dataclass(frozen=True)
class Evaluation:
    """Means over the held-out predictions, in nats; ``accuracy`` is a part of 1.

    ``unigram_loss`` is the cross-entropy of the very tokens that language modelling was asked for,
    under their frequencies in the training text: what a model reaches that has learned nothing but
    how common tokens are. None without language modelling; ``unigram_losses`` has it by objective.
    ``base_rate`` is the accuracy, in questions of yes or no, of who always says the commoner.
    """

    loss: float
    losses: dict[str, float]
    accuracy: dict[str, float]
    examples: int
    unigram_loss: float | None = None
    unigram_losses: dict[str, float] = field(default_factory=dict)
    base_rate: dict[str, float] = field(default_factory=dict)
    languages: dict[str, dict[str, float]] = field(default_factory=dict)
    """The losses by language (``en``) or direction (``en-fr``), where there are several."""
    scores: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    """Of tasks, by the part they are judged by and by metric."""
    always: dict[str, dict[str, str]] = field(default_factory=dict)
    """The label or tag that all of a part were given ("" of spans: that there is none), by task and
    part, where it is one: such a model has learned nothing of its examples yet.
    """

    def fields(self) -> dict[str, Any]:
        """The fields of a line of metrics."""
        every = ("loss", "losses", "accuracy")
        found = asdict(self).items()
        return {name: value for name, value in found if name in every or value not in (None, {})}


def score_lines(evaluation: Evaluation) -> list[str]:
    """The scores of tasks, a line a part."""
    same = always_lines(evaluation)
    return [
        f"{task} {part}: "
        + ", ".join(f"{metric} {value:.4f}" for metric, value in found.items())
        + (f" ({same[task, part]})" if (task, part) in same else "")
        for task, parts in evaluation.scores.items()
        for part, found in parts.items()
    ]


def always_lines(evaluation: Evaluation) -> dict[tuple[str, str], str]:
    """By task and part the one answer that all examples were given, where it is one."""
    return {
        (task, part): f"every answer is {f'`{said}`' if said else 'that there is none'}"
        for task, parts in evaluation.always.items()
        for part, said in parts.items()
    }


def unigram_nats(vocabulary: Vocabulary, training_tokens: int, device: torch.device) -> Tensor:
    """-log p of every token (v,), p its frequency in the training text with one added to each."""
    frequency_v = torch.from_numpy(vocabulary.unigram).double()
    count_v = frequency_v * training_tokens + 1
    nats_v = -torch.log(count_v / count_v.sum())
    return (nats_v.float() if device.type in WITHOUT_FP64 else nats_v).to(device)


STREAM_ROWS = 8
"""Rows that held-out text is read in where it runs on: few, so that each has much to remember."""


def heldout_rows(stage: Stage, microbatch: int, ranks: ProcessGroup) -> int:
    """Held-out rows read at once by all processes together."""
    if stage.format.kind in RUNNING:
        return min(stage.batch, max(STREAM_ROWS, ranks.world.size))
    return min(microbatch * ranks.world.size, stage.batch)


def counted(data: TextData, rows: int, examples: int, progress: Progress) -> Iterator[RawBatch]:
    """Held-out batches of so many rows, about ``examples`` in all, as ``progress`` is told."""
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
    tables: Tables,
    nats_v: Tensor,
    microbatch: int,
    seed: int,
    ranks: ProcessGroup,
) -> Evaluation:
    """Evaluate on all of ``batches``, each of one language, of which each process reads its rows.

    Masks are keyed by example, so they are the same every time. A term that nothing was held out
    for has no loss. Where a stage has a memory it is empty before the first batch of a language,
    and each batch goes on from the one before.

    Raises:
        StoppedError: if someone asked the run to stop meanwhile.
    """
    totals: dict[str, Tensor] = {}  # by language (5, t): sums, hits, yes, counts, unigram costs
    memories: dict[str, list[Memory | None]] = {}
    examples, device = 0, nats_v.device
    prepared = preparing(device)
    model.eval()
    try:
        for batch in batches:
            ranks.stop.check()
            inputs = to_inputs(batch, prepared)
            own = Inputs(*(tensor[ranks.rows(len(batch.lengths))] for tensor in inputs))
            columns = on_device(corrupt(stage, own, tables, mask_key(seed)), device)
            counts_t = counts(stage, [columns])
            # Of several processes each reads its few rows at once: all are to meet as often.
            parts = [columns] if ranks.is_distributed else split(columns, microbatch)
            language = named(model.resolved.languages, *batch.languages[0].tolist())
            if language not in memories:
                rows = (len(part.originals) for part in parts)
                memories[language] = [beginning(model, stage, n, device) for n in rows]
            statistics = _scored(objective, parts, memories[language], torch.ones_like(counts_t))
            guessed_t = torch.stack([_guess(t, columns, nats_v) for t in stage.objective])
            found = torch.stack([*exact(statistics), exact(counts_t), guessed_t])
            totals[language] = totals.get(language, 0) + found
            examples += len(batch.lengths)
    finally:
        model.train()
    every = torch.stack(list(totals.values()))
    ranks.add(every)
    every = every.cpu()  # the one wait for the device in an evaluation
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
    told = [scored[name] == "tokens" for name in kinds(stage)]
    asked = whole[3][told].sum().item()
    each = {name: _means(stage, total) for name, total in sorted(by_language.items())}
    return Evaluation(
        loss=math.fsum(weights[name] * value for name, value in losses.items()),
        losses=losses,
        accuracy={name: hits[name] for name in losses},
        examples=examples,
        unigram_loss=whole[4][told].sum().item() / asked if asked else None,
        unigram_losses={name: guessed[name] for name in losses if scored[name] == "tokens"},
        base_rate={n: max(yes[n], 1 - yes[n]) for n in losses if scored[n] == "binary"},
        languages=each if len(each) > 1 else {},
    )


def _scored(
    objective: Objective,
    parts: list[Columns],
    memories: list[Memory | None],
    factors_t: Tensor,
) -> Tensor:
    """Sums, hits and yeses (3, t) of a batch's micro-batches; their memories move on in place."""
    total = torch.zeros(3, len(factors_t), device=factors_t.device)
    for index, part in enumerate(parts):
        _, statistics, memories[index] = objective(remembering(part, memories[index]), factors_t)
        total = total + statistics
    return total


def named(languages: tuple[str, ...], first: int, second: int) -> str:
    """A language as ``en``, a direction as ``en-fr``; text of no language is ``other``."""
    one, two = ((*languages, "other")[number] for number in (first, second))
    return one if first == second else f"{one}-{two}"


def _means(stage: Stage, total: Tensor) -> dict[str, float]:
    """The loss of every term that has predictions, from its ``totals``."""
    sums, _, _, counted, _ = total.tolist()
    divided_by = divisors(stage, total[3]).tolist()
    terms = zip(kinds(stage), sums, divided_by, counted, strict=True)
    return {name: value / part for name, value, part, count in terms if count}


def _guess(term: Term, columns: Columns, nats_v: Tensor) -> Tensor:
    """Summed cost of the tokens that a term predicts under the unigram distribution, else 0."""
    found = tensors_of(term.objective).baseline(columns.terms[term.name], nats_v)
    return nats_v.new_zeros(()) if found is None else found
