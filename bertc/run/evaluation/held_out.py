"""Held-out evaluation: loss and accuracy of each objective, beside trivial baselines.

Axes: t terms of the objective, v vocabulary.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from bertc.ir.data import RUNNING
from bertc.ir.learning import Term
from bertc.ir.program import Stage, split_rows
from bertc.ir.terms.masking import kind_names, shown_figures
from bertc.learn.objectives import Inputs, MicroBatch, VocabTensors, tensors_of
from bertc.learn.objectives.corruption import corrupt, mask_key, with_kinds
from bertc.learn.step.engines import Objective
from bertc.learn.step.feed import to_inputs
from bertc.learn.step.memory import beginning
from bertc.learn.step.micro_batches import split
from bertc.learn.step.objective import kinds, remembering
from bertc.machine.process_group import ProcessGroup
from bertc.model import Memory, Model
from bertc.run.records.results import values_of
from bertc.tasks.metrics.metrics import ByClass
from bertc.text.batches.arranged import TextData
from bertc.text.batches.batch import RawBatch
from bertc.text.cache.store import Progress
from bertc.text.vocab.vocabulary import Vocabulary


@dataclass(frozen=True)
class Evaluation:
    """Means over the held-out predictions: losses in nats, accuracies as fractions of 1.

    Those of ``mlm`` are of all predicted positions, as training has them; ``mlm_masked`` and the
    like of one kind alone (``ir.terms.masking``), as far as there are any. ``loss_masked`` is the
    loss with those of masked positions in place.

    ``unigram_loss`` is the cross-entropy of the predicted tokens under the training text's token
    frequencies: the loss of a model that has learned only those. None without language modelling;
    ``unigram_losses`` has it by objective. ``base_rate`` is the accuracy, in binary objectives, of
    always answering the more frequent class.
    """

    loss: float
    losses: dict[str, float]
    accuracy: dict[str, float]
    examples: int
    loss_masked: float | None = None
    positions: dict[str, int] = field(default_factory=dict)
    """Numbers of predicted positions of each kind."""
    unigram_loss: float | None = None
    unigram_losses: dict[str, float] = field(default_factory=dict)
    base_rate: dict[str, float] = field(default_factory=dict)
    languages: dict[str, dict[str, float]] = field(default_factory=dict)
    """Losses by language (``en``) or translation direction (``en-fr``), if there are several."""
    scores: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    """Scores of tasks, by task, part and metric."""
    always: dict[str, dict[str, str]] = field(default_factory=dict)
    """The answer to every example of a part, by task and part, if all are alike; "" of none."""
    classes: dict[str, dict[str, ByClass]] = field(default_factory=dict)
    """Scores by class, by task and part; not in metrics lines."""
    intervals: dict[str, dict[str, tuple[float, float]]] = field(default_factory=dict)
    """95% intervals of accuracies, by task and part, of minimal pairs."""
    predictions: int = 0
    """Predicted tokens, over all objectives."""
    characters: int = 0
    """Characters that these stand for; 0 if unknown, or not asked for."""

    @property
    def values(self) -> dict[tuple[str, ...], float]:
        """Scores by task, part and metric; losses of objectives without scores by their name."""
        return values_of(self.scores, self.losses)

    def fields(self) -> dict[str, Any]:
        """The fields of a metrics line."""
        always, sizes = ("loss", "losses", "accuracy"), ("predictions", "characters", "classes")
        items = {n: v for n, v in asdict(self).items() if n not in sizes}.items()
        return {name: value for name, value in items if name in always or value not in (None, {})}


def unigram_nats(vocabulary: Vocabulary, training_tokens: int, device: torch.device) -> Tensor:
    """-log p of every token (v,) in nats, p its add-one smoothed frequency in the training text."""
    count_v = torch.from_numpy(vocabulary.unigram).double() * training_tokens + 1
    return -torch.log(count_v / count_v.sum()).to(device)


STREAM_ROWS = 8
"""Rows of held-out text if it is read as streams: few, so that each has a long memory."""


def heldout_sizes(stage: Stage, microbatch: int, ranks: ProcessGroup) -> range:
    """Numbers of held-out rows that all processes together may evaluate at once."""
    most = min(microbatch * ranks.world.size, stage.batch)
    if stage.format.kind in RUNNING:
        most = min(stage.batch, max(STREAM_ROWS, ranks.world.size))
    return range(min(ranks.world.size, most), most + 1)


def fetch(data: TextData, sizes: range, examples: int, progress: Progress) -> Iterator[RawBatch]:
    """Held-out batches of one of the sizes, of ``examples`` rows in all; advances ``progress``."""
    progress.begin("evaluating", data.heldout_rows(sizes, examples), "rows")
    for batch in data.heldout(sizes, examples):
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
    ranks: ProcessGroup,
) -> Evaluation:
    """Evaluate on all batches, each of one language; every process takes its share of the rows.

    Masks are keyed by example, so every evaluation uses the same ones. Memory is emptied before the
    first batch of a language. ``costs`` (v,) of tokens: nats by frequency, perhaps characters.
    """
    stage, key = stage.held_out, mask_key(model.resolved.run.seed)
    # Per language (5 or 6, c): loss sums, correct, positives, counts, unigram losses, characters;
    # a column a term, then one for each kind of position.
    totals: dict[str, Tensor] = {}
    memories: dict[str, list[Memory | None]] = {}
    examples, device = 0, costs[0].device
    model.eval()
    try:
        for batch in batches:
            ranks.stop.check()
            inputs = to_inputs(batch, device)
            local = Inputs(*(tensor[ranks.rows(len(batch.lengths))] for tensor in inputs))
            language = language_of(model.resolved.languages, *batch.languages[0].tolist())
            for direction in split_rows(stage):
                corrupted = corrupt(direction, local, vocab, key)
                micro_batch = with_kinds(direction, corrupted, vocab.mask)
                # Each of several processes evaluates its rows at once, so all make as many calls.
                parts = [micro_batch] if ranks.is_distributed else split(micro_batch, microbatch)
                if language not in memories:
                    rows = (len(part.originals) for part in parts)
                    memories[language] = [beginning(model, stage, n, device) for n in rows]
                statistics = _scored(stage, objective, parts, memories[language])
                sums = torch.stack([*statistics.double(), *_targets(stage, micro_batch, costs)])
                totals[language] = totals.get(language, 0) + sums
            examples += len(batch.lengths)
    finally:
        model.train()
    sums_lc = torch.stack(list(totals.values()))
    ranks.add(sums_lc)
    sums_lc = sums_lc.cpu()  # the only device synchronisation of an evaluation
    return _evaluation(stage, dict(zip(totals, sums_lc, strict=True)), examples)


def _columns(stage: Stage) -> dict[str, Term]:
    """Terms by name, then those that mask tokens by the name of each kind of position."""
    masks = [term for term in stage.objective if term.objective.masks]
    by_name = {term.name: term for term in stage.objective}
    return by_name | {part: term for term in masks for part in kind_names(term.name)}


def _evaluation(stage: Stage, by_language: dict[str, Tensor], examples: int) -> Evaluation:
    total_c, columns = torch.stack(list(by_language.values())).sum(0), _columns(stage)
    losses = _means(columns, total_c)
    hits, yes, guessed = (
        dict(zip(columns, (total_c[row] / total_c[3].clamp(min=1)).tolist(), strict=True))
        for row in (1, 2, 4)
    )
    counted = dict(zip(columns, map(round, total_c[3].tolist()), strict=True))
    nodes = {name: columns[name].objective for name in losses}
    of_languages = {name: _means(columns, total) for name, total in sorted(by_language.items())}
    names = {term.name for term in stage.objective}
    by_frequency = {n for n, t in columns.items() if t.objective.baseline == "token frequencies"}
    of_tokens = [name in names & by_frequency for name in columns]
    predicted = total_c[3][of_tokens].sum().item()

    def weighted(names: Iterable[str]) -> float:
        return math.fsum(columns[name].weight * losses[name] for name in names)

    return Evaluation(
        loss=weighted(name for name in losses if name in names),
        losses=losses,
        accuracy={name: hits[name] for name in losses if nodes[name].is_right_or_wrong},
        examples=examples,
        loss_masked=weighted(shown_figures(losses)) if {*shown_figures(losses)} - names else None,
        positions={name: counted[name] for name in losses if name not in names},
        unigram_loss=total_c[4][of_tokens].sum().item() / predicted if predicted else None,
        unigram_losses={name: guessed[name] for name in losses if name in by_frequency},
        base_rate={n: max(yes[n], 1 - yes[n]) for n in losses if nodes[n].baseline == "majority"},
        languages=of_languages if len(of_languages) > 1 else {},
        predictions=round(predicted),
        characters=round(total_c[5].sum().item()) if len(total_c) > 5 else 0,
    )


def _scored(
    stage: Stage, objective: Objective, parts: list[MicroBatch], memories: list[Memory | None]
) -> Tensor:
    """Loss sums, correct answers and positives (3, c) of a batch; updates ``memories`` in place."""
    device, names = parts[0].originals.device, parts[0].named(kinds(stage))
    total = torch.zeros(3, len(names), device=device)
    factors_t = torch.ones(len(stage.objective), device=device)
    for index, part in enumerate(parts):
        _, statistics, memories[index] = objective(remembering(part, memories[index]), factors_t)
        total = total + statistics
    by_name, nothing = dict(zip(names, total.unbind(1), strict=True)), total.new_zeros(3)
    return torch.stack([by_name.get(name, nothing) for name in _columns(stage)], dim=1)


def language_of(languages: tuple[str, ...], first: int, second: int) -> str:
    """Name a language as ``en``, a direction as ``en-fr``; ``other`` is text without a language."""
    source, target = ((*languages, "other")[number] for number in (first, second))
    return source if first == second else f"{source}-{target}"


def _means(columns: Mapping[str, Term], total: Tensor) -> dict[str, float]:
    """Mean loss of every column that has predictions, from its ``totals``."""
    sums, _, _, counted, *_ = total.tolist()
    return {
        name: value / max(1, count + tensors_of(term.objective).divisor_extra)
        for (name, term), value, count in zip(columns.items(), sums, counted, strict=True)
        if count
    }


def _targets(stage: Stage, micro_batch: MicroBatch, costs: Sequence[Tensor]) -> list[Tensor]:
    """Counts (c,) of predictions, and their summed ``costs``, in nats or characters; else 0."""
    nothing, columns = costs[0].new_zeros(()).double(), _columns(stage)
    terms = [(tensors_of(t.objective), micro_batch.terms.get(n)) for n, t in columns.items()]
    counts = [nothing if goal is None else t.count(goal).double() for t, goal in terms]
    sums = [torch.stack(counts)]
    for cost_v in costs:
        by_term = [goal and tensors.baseline(goal, cost_v) for tensors, goal in terms]
        sums.append(torch.stack([nothing if cost is None else cost for cost in by_term]))
    return sums
