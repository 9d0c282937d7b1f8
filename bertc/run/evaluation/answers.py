"""Answers to examples, read off the scores of their rows.

Axes: r rows of all batches, d numbers of a vector; n examples, t texts of an example, c candidates;
w windows of a passage.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from bertc.ir.learning import AnyTask, NamedSpans, Read, Spans, Squad
from bertc.ir.learning.answer import Choice, Labels, Score, Several, Span, Tags, Vector
from bertc.ir.learning.vector_task import Embed, Rerank, ScoreActivation
from bertc.learn.objectives.softmax import similarities
from bertc.tasks.examples.named_rows import names_asked
from bertc.tasks.examples.task import TaskBatch
from bertc.tasks.examples.task_rows import TaskRows
from bertc.tasks.layouts import example as layouts
from bertc.tasks.layouts.example import AnswerValue, Example, Examples, SearchExample
from bertc.tasks.metrics.calibration import NO_FIT, HeadFit, probabilities
from bertc.tasks.metrics.metrics import MOST_RANKED
from bertc.tasks.metrics.spans import (
    Decoded,
    NamedSpan,
    Window,
    decode_conditioned,
    decode_plain,
    named_tags,
    spans_apart,
)

NEAR = 1e-9
"""Cosines less apart are alike: of the same text twice neither is nearer."""
ACTIVATED: Mapping[ScoreActivation, Callable[[Any], NDArray[np.float64]]] = {
    "sigmoid": lambda logits: np.asarray(1 / (1 + np.exp(-logits))),
    "identity": np.asarray, "tanh": np.tanh, "relu": lambda logits: np.maximum(logits, 0),
}  # fmt: skip
"""Scores of a pair, from its logit."""
Said = Iterator[tuple[TaskBatch, tuple[NDArray[np.float64], ...]]]
"""Batches and the scores of their rows (``task_inference``)."""


@dataclass(frozen=True)
class Answers:
    """An answer to each example.

    ``probabilities`` are of labels or choices, in their order, or of each word's tag; ``spans``
    hold the details of predicted spans, ``similarities`` are cosines of pairs. ``loss`` is the mean
    in nats and ``accuracy`` a fraction of 1; both are 0 if the examples have no answers. ``terms``
    are mean numbers of weights of sparse vectors that are not 0.
    """

    given: list[AnswerValue]
    probabilities: list[tuple[float, ...]] = field(default_factory=list)
    spans: list[Decoded] = field(default_factory=list)
    similarities: list[float] = field(default_factory=list)
    loss: float = 0.0
    accuracy: float = 0.0
    scores: NDArray[np.float64] | None = None
    """Logits of labels (n, c), of which probabilities are made."""
    named: list[list[NamedSpan]] = field(default_factory=list)
    """Spans with names of each example, also those less likely than a threshold."""
    terms: dict[str, float] = field(default_factory=dict)


def read_off(
    task: AnyTask, examples: Examples, rows: TaskRows, scored: Said, batch: int, fit: HeadFit
) -> Answers:
    """The answers to examples, off the scores of their rows, without losses of single rows."""
    match task.answer:
        case Labels() as labels:
            values = _pool_scores(rows, scored, len(examples))
            parts = probabilities(values, False, fit)
            best = [labels.names[place] for place in parts.argmax(1)]
            return Answers([*best], [tuple(row) for row in parts.tolist()], scores=values)
        case Several() as several:
            return several_answers(several, _pool_scores(rows, scored, len(examples)), fit)
        case Score() as score:
            values = _pool_scores(rows, scored, len(examples))
            if isinstance(task, Rerank):
                values = ACTIVATED[task.activation](values)
            return Answers([tuple(row) if score.names else row[0] for row in values.tolist()])
        case Choice() as choice:
            return _choices(choice, scored, len(examples))
        case Tags() as tags:
            return _tags(tags, examples, rows, scored)
        case NamedSpans():
            assert isinstance(task, Spans), "spans by names need their task"
            return _named(task, examples, scored, fit)
        case Span() as span:
            return _spans(span, task, examples, rows, scored)
        case Vector():
            return _score_related(task, examples, rows, scored, batch)


def _pool_scores(rows: TaskRows, scored: Said, count: int) -> NDArray[np.float64]:
    """Scores in the order of the examples, one row per example: the mean over its windows."""
    total, in_order = len(rows.owners), None
    for batch, (values,) in scored:
        in_order = np.zeros((total, values.shape[1])) if in_order is None else in_order
        in_order[batch.rows] = values
    if in_order is None:
        return np.zeros((count, 1))
    if total == count:
        return in_order
    firsts = np.searchsorted(rows.owners, np.arange(count))
    sums: NDArray[np.float64] = np.add.reduceat(in_order, firsts)
    return sums / np.bincount(rows.owners, minlength=count)[:, None]


def several_answers(several: Several, scores: NDArray[np.float64], fit: HeadFit) -> Answers:
    """The labels above their thresholds, 0.5 if none are fitted."""
    parts = probabilities(scores, True, fit)
    least = fit.thresholds or (0.5,) * len(several.names)
    labels_given: list[AnswerValue] = [
        tuple(n for n, part, low in zip(several.names, row, least, strict=True) if part > low)
        for row in parts.tolist()
    ]
    return Answers(labels_given, [tuple(row) for row in parts.tolist()], scores=scores)


def _choices(choice: Choice, scored: Said, count: int) -> Answers:
    scores = np.full((count, choice.most), -np.inf)
    for batch, (values,) in scored:
        is_choice = batch.weights.reshape(-1, choice.most) > 0
        scores[batch.rows[:: choice.most] // choice.most] = np.where(is_choice, values, -np.inf)
    parts = probabilities(scores, False, NO_FIT)
    labels_given: list[AnswerValue] = [int(best) for best in parts.argmax(1)]
    return Answers(labels_given, [tuple(row) for row in parts.tolist()])


def _tags(tags: Tags, examples: Examples, rows: TaskRows, scored: Said) -> Answers:
    """The tag of every word; a word without a scored token gets `O`, or the first tag."""
    unscored = "O" if "O" in tags.names else tags.names[0]
    by_row: list[tuple[str, ...]] = [() for _ in rows.owners]
    sure: list[tuple[float, ...]] = [() for _ in rows.owners]
    for batch, (scores,) in scored:
        values = probabilities(scores, False, NO_FIT)
        for nth, row in enumerate(batch.rows.tolist()):
            words = rows.words[rows.word_begins[row] : rows.word_begins[row + 1]]
            by_row[row] = tuple(
                tags.names[b] if word >= 0 else unscored
                for b, word in zip(values[nth, : len(words)].argmax(1), words, strict=True)
            )
            sure[row] = tuple(values[nth, : len(words)].max(1).tolist())
    # Of an example in windows each scores some of the words, in order; none reads the last ones.
    ends = np.searchsorted(rows.owners, np.arange(len(examples) + 1)).tolist()
    answers, sures = list[AnswerValue](), list[tuple[float, ...]]()
    for example, first, end in zip(examples, ends[:-1], ends[1:], strict=True):
        assert isinstance(example, layouts.TaggedExample), "tags are of sentences"
        read = tuple(chain(*by_row[first:end]))
        rest = len(example.words) - len(read)
        answers.append((*read, *[unscored] * rest))
        sures.append((*chain(*sure[first:end]), *[0.0] * rest))
    return Answers(answers, sures)


def _named(task: Spans, examples: Examples, scored: Said, fit: HeadFit) -> Answers:
    """Spans apart from each other, and the tags that those above a threshold make."""
    names, named = names_asked(task, examples), [list[NamedSpan]() for _ in examples]
    for batch, (scores,) in scored:
        for row, scores_wnl in zip(batch.rows.tolist(), scores, strict=True):
            named[row] = spans_apart(probabilities(scores_wnl, True, NO_FIT), names)
    return Answers([*named_tags(examples, named, fit)], named=named)


def _spans(span: Span, task: AnyTask, examples: Examples, rows: TaskRows, scored: Said) -> Answers:
    """Answers to questions, each of the windows of its passage."""
    assert isinstance(task, Squad | Read), "spans need a reading task"
    windows: dict[int, list[tuple[int, tuple[NDArray[np.float64], ...]]]] = defaultdict(list)
    for batch, arrays in scored:
        for nth, row in enumerate(batch.rows.tolist()):
            windows[int(rows.owners[row])].append((row, tuple(a[nth] for a in arrays)))
    decoded = [
        _decoded(span, task, example, rows, sorted(windows[number], key=lambda w: w[0]))
        for number, example in enumerate(examples)
    ]
    return Answers([span_text.text for span_text in decoded], spans=decoded)


def _decoded(
    span: Span,
    task: Squad | Read,
    example: Example,
    rows: TaskRows,
    windows: list[tuple[int, tuple[NDArray[np.float64], ...]]],
) -> Decoded:
    assert isinstance(example, layouts.QuestionExample), "spans need a question"
    places = [
        Window(int(rows.firsts[row]), rows.offsets[rows.begins[row] : rows.begins[row + 1]])
        for row, _ in windows
    ]
    if span.head.kind == "plain":
        lengths = [len(place.offsets) for place in places]
        starts, ends = (
            [arrays[which][:length] for (_, arrays), length in zip(windows, lengths, strict=True)]
            for which in (0, 1)
        )
        return decode_plain(
            example.passage, places, starts, ends, best=task.best, longest=task.longest,
            unanswerable=span.unanswerable, threshold=task.threshold,
        )  # fmt: skip
    parts = [[arrays[which] for _, arrays in windows] for which in range(4)]
    # Cut to the number of starts that the shortest window has.
    stacked = [np.stack([part[: min(map(len, arrays))] for part in arrays]) for arrays in parts]
    none_w = np.array([float(arrays[4]) for _, arrays in windows]) if span.unanswerable else None
    return decode_conditioned(
        example.passage, places, stacked[0], stacked[1].astype(np.int64), stacked[2],
        stacked[3].astype(np.int64), none_w, best=task.best, longest=task.longest,
        threshold=task.threshold,
    )  # fmt: skip


def _score_related(
    task: AnyTask, examples: Examples, rows: TaskRows, scores_said: Said, batch: int
) -> Answers:
    """The cosine of each pair with a score; of others how many texts are nearer than the positive.

    The texts are its negatives, or without any the positives of the ``batch`` of its loss.
    """
    assert isinstance(task, Embed), "vectors need a task that embeds"
    if isinstance(examples[0], SearchExample):
        searched = [example for example in examples if isinstance(example, SearchExample)]
        return rank_all(task, searched, _vectors(task, rows, scores_said))
    related = [example for example in examples if isinstance(example, layouts.TextExample)]
    vectors, texts = _vectors(task, rows, scores_said), len(rows.owners) // len(related)
    scored = all(example.answer is not None for example in related)
    ordered = scored and task.loss == "order"
    scores_nt = torch.from_numpy(rows.targets[:, 0]).view(len(related), texts)
    ranks = task if task.is_sparse else task.model_copy(update={"similarity": "cosine"})
    losses, answers, cosines = 0.0, list[AnswerValue](), list[float]()
    for first in range(0, len(related), batch):
        part = slice(first, first + batch)
        of_part = [x.to_dense() for x in vectors[part.start * texts : part.stop * texts]]
        part_mtd = similarities.by_example(pad_sequence(of_part, batch_first=True).double(), texts)
        known_mt = scores_nt[part] if scored else None
        losses += float(similarities.related_losses(task, part_mtd, known_mt).losses.sum())
        firsts_md, others_mtd = similarities.compared(ranks, part_mtd)
        cosines_mt = similarities.likeness_of_lists(firsts_md, others_mtd)
        cosines_m, beside_mc = cosines_mt[:, 0], cosines_mt
        if cosines_mt.shape[1] == 1:
            beside_mc = similarities.likeness_of_all(firsts_md, others_mtd[:, 0])
        # Without a term in common a positive is as far as all others, itself included.
        bound_m = torch.where(cosines_m == 0, -NEAR, cosines_m + NEAR)
        nearer_m = (beside_mc > bound_m[:, None]).sum(1)
        cosines += cosines_m.tolist()
        answers += (cosines_m if ordered else nearer_m).tolist()
    right = 0.0 if ordered else sum(answer == 0 for answer in answers) / len(answers)
    terms = _terms(vectors[::texts], [x for n, x in enumerate(vectors) if n % texts])
    loss = losses / len(answers)
    return Answers(answers, similarities=cosines, loss=loss, accuracy=right, terms=terms)


def _terms(queries: Sequence[Tensor], passages: Sequence[Tensor]) -> dict[str, float]:
    """Mean numbers of the weights of sparse vectors; of others none."""
    if not (queries[0].is_sparse and passages):
        return {}
    of_kinds = {"query_terms": queries, "passage_terms": passages}
    return {kind: sum(x._nnz() for x in texts) / len(texts) for kind, texts in of_kinds.items()}


def rank_all(task: Embed, searched: Sequence[SearchExample], vectors: Sequence[Tensor]) -> Answers:
    """The nearest documents of each query, and the cross entropy of its relevant ones among all."""
    keys = [example.key for example in searched if example.relevant is None]
    column_of = {key: place for place, key in enumerate(keys)}
    asked = [example for example in searched if example.relevant is not None]
    loss, right, answers = 0.0, 0, list[AnswerValue]()
    queries, documents = vectors[: len(asked)], vectors[len(asked) :]
    likeness = similarities.search(task, queries, documents)
    for first, likeness_qc in zip(count(step=similarities.QUERIES_AT_ONCE), likeness):
        best_qk = likeness_qc.topk(min(MOST_RANKED, len(keys))).indices.tolist()
        total_q = (likeness_qc / task.temperature).logsumexp(1)
        of_queries = zip(asked[first:], best_qk, total_q, likeness_qc, strict=False)
        for example, best, total, likeness_c in of_queries:
            relevant = [column_of[key] for key, _ in example.relevant or ()]
            loss += float(total - likeness_c[relevant].mean() / task.temperature)
            right += best[0] in relevant
            answers.append(tuple(keys[place] for place in best))
    loss, accuracy = loss / len(asked), right / len(asked)
    answers, terms = [*answers, *[()] * len(keys)], _terms(queries, documents)
    return Answers(answers, loss=loss, accuracy=accuracy, terms=terms)


def _vectors(task: Embed, rows: TaskRows, scores_said: Said) -> list[Tensor]:
    """The vector of each text (d,), or those of its tokens (k, d), in the order of their rows."""
    vectors: list[Tensor] = [torch.empty(0)] * len(rows.owners)
    for batch, (vectors_bd,) in scores_said:
        for row, vector in zip(batch.rows.tolist(), torch.from_numpy(vectors_bd), strict=True):
            there = vector[vector.any(1)].float() if vector.dim() == 2 else vector
            vectors[row] = there.float().to_sparse() if task.is_sparse else there
    return vectors
