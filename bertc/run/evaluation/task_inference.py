"""Answers of a model to the examples of a task.

Axes: r rows per batch, p likeliest starts, e ends per start, s tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertc.data.cache.progress import Progress, Silent
from bertc.data.examples.task import TaskBatch, TaskSet, in_order_of_length
from bertc.data.examples.task_rows import TaskRows
from bertc.data.layouts.example import Example
from bertc.data.metrics.gold import AnswerValue
from bertc.ir.learning.answer import Choice, Labels, Score, Span, Tags, Vector
from bertc.ir.learning.custom_task import AnyTask, Embed
from bertc.ir.program.network import MAIN
from bertc.ir.program.stage import Stage
from bertc.learn.objectives import MicroBatch, TermLoss
from bertc.learn.objectives.answers import (
    ENDS,
    SpanScores,
    TaskTensors,
    answer_losses,
    answer_scores,
    span_scores,
)
from bertc.learn.objectives.pairs import EmbedTensors
from bertc.learn.objectives.term import HeadInput
from bertc.learn.objectives.terms import joined, states_of
from bertc.learn.step.task_feed import to_micro_batch
from bertc.machine.exact import exact
from bertc.machine.signals import Stop
from bertc.machine.speed import finish
from bertc.model import Model
from bertc.run.evaluation.related import related_answers
from bertc.run.evaluation.said import Answers, Said
from bertc.run.evaluation.span_answers import span_answers

TOKENS_AT_ONCE = {"cpu": 1 << 12, "cuda": 1 << 16, "mps": 1 << 14}
ROWS_AT_ONCE = 256
BYTES_AT_ONCE = 64 << 20
"""Bytes of scores that are copied to main memory between two synchronisations."""

Within = Callable[[Callable[..., Any]], Callable[..., Any]]
"""A decorator of a forward-only function: to call it under an engine, or another in its place."""


@torch.no_grad()
def answer(
    model: Model,
    stage: Stage,
    task_set: TaskSet,
    examples: Sequence[Example],
    rows: TaskRows,
    pad: int,
    stop: Stop | None = None,
    at_once: int = ROWS_AT_ONCE,
    within: Within = lambda function: function,
    progress: Progress | None = None,
) -> Answers:
    """Answer all examples, batched with others of similar length.

    ``within`` decorates ``outputs``; ``progress`` counts rows.

    Raises:
        StoppedError: if a stop was requested meanwhile.
    """
    training, device = model.training, next(model.parameters()).device
    model.eval()
    try:
        totals = exact(torch.zeros(3, device=device))
        score = within(partial(outputs, model, stage, task_set.task))
        scored = _said(score, task_set, rows, pad, totals, stop, at_once, progress or Silent())
        answers = _read_off(task_set.task, examples, rows, scored, stage.batch)
    finally:
        model.train(training)
    loss, hits, count = totals.tolist()
    if isinstance(task_set.task, Embed):  # whose loss is of all vectors
        return answers
    return replace(answers, loss=loss / max(count, 1.0), accuracy=hits / max(count, 1.0))


def _read_off(
    task: AnyTask, examples: Sequence[Example], rows: TaskRows, scored: Said, batch: int
) -> Answers:
    match task.answer:
        case Labels() as labels:
            return _labels(labels, scored, len(examples))
        case Score():
            return _scores(scored, len(examples))
        case Choice() as choice:
            return _choices(choice, scored, len(examples))
        case Tags() as tags:
            return _tags(tags, rows, scored)
        case Span() as span:
            return span_answers(span, task, examples, rows, scored)
        case Vector():
            return related_answers(task, examples, rows, scored, batch)
        case unreachable:
            assert_never(unreachable)


def _said(
    score: Callable[[MicroBatch], tuple[Tensor | SpanScores, TermLoss]],
    task_set: TaskSet,
    rows: TaskRows,
    pad: int,
    totals: Tensor,
    stop: Stop | None,
    at_once: int,
    progress: Progress,
) -> Said:
    """Scores of all rows, batch by batch; adds losses, hits and counts to ``totals`` (3,).

    The device is synchronised once for as many batches as ``BYTES_AT_ONCE`` hold.
    """
    device = totals.device
    tokens, waiting, held = TOKENS_AT_ONCE[device.type], list[tuple[TaskBatch, Tensors]](), 0
    for batch in in_order_of_length(task_set, rows, tokens, at_once, pad):
        if stop:
            stop.check()
        scores, term = score(to_micro_batch(batch, device))
        totals += exact(torch.stack([term.sum, term.correct, term.count]))
        copied = tuple(tensor.to("cpu", non_blocking=True) for tensor in _score_tensors(scores))
        waiting.append((batch, copied))
        held += sum(tensor.nbytes for tensor in copied)
        progress.advance(len(batch.rows))
        if held > BYTES_AT_ONCE:
            yield from _on_host(waiting, device)
            waiting, held = [], 0
    yield from _on_host(waiting, device)


Tensors = tuple[Tensor, ...]


def _on_host(copied: list[tuple[TaskBatch, Tensors]], device: torch.device) -> Said:
    finish(device)
    for batch, tensors in copied:
        yield batch, tuple(tensor.double().numpy() for tensor in tensors)


def outputs(
    model: Model, stage: Stage, task: AnyTask, micro_batch: MicroBatch
) -> tuple[Tensor | SpanScores, TermLoss]:
    """Scores of a task's head for a batch, and its loss; vectors of texts, without one."""
    if isinstance(task, Embed):
        return _vectors(model, stage, task, micro_batch)
    tensors, head = TaskTensors(task), model.heads[task.title]
    targets = micro_batch.terms[task.title]
    network = stage.network(MAIN)
    reading = micro_batch.read_by(network)
    outputs = model.read_on(reading, wanted=task.wanted(learned=True))
    by_head = states_of(joined([task]), micro_batch, reading, outputs, network.body)
    layers = (*by_head[task.head_name], *tensors.taken(outputs, learned=True))
    states = tensors.read(targets, HeadInput(layers, micro_batch, head, model.encoder))
    loss = tensors.loss(answer_losses(task.answer, targets, states, head), targets)
    if not isinstance(task.answer, Span):
        return answer_scores(task.answer, states, head), loss
    return span_scores(task.answer, targets, states, head), loss


def _vectors(
    model: Model, stage: Stage, task: Embed, micro_batch: MicroBatch
) -> tuple[Tensor, TermLoss]:
    """Vectors of rows (r, d); the model need not have learned the task."""
    tensors, targets = EmbedTensors(task), micro_batch.terms[task.title]
    network = stage.network(MAIN)
    reading = micro_batch.read_by(network)
    read = model.read_on(reading)
    by_head = states_of(joined([task]), micro_batch, reading, read, network.body)
    states, head = by_head[task.head_name][0], nn.ModuleList()
    vectors_rd = tensors.vectors(states, targets, head, model.encoder)
    nothing = vectors_rd.new_zeros(())
    return vectors_rd, TermLoss(nothing, nothing, nothing)


def _score_tensors(scores: Tensor | SpanScores) -> Tensors:
    """Tensors of scores, small enough to copy to main memory.

    Of spans start and end scores (r, s); with a beam log probabilities and positions of both, and
    the log odds of "no answer" if the head has them.
    """
    if isinstance(scores, Tensor):
        return (scores,)
    if scores.likeliest is None:
        return scores.starts, scores.ends
    start_rp = scores.starts.log_softmax(1).gather(1, scores.likeliest)
    end_rps = scores.ends.log_softmax(2)
    end_rpe, at_rpe = end_rps.topk(min(ENDS, end_rps.shape[2]), dim=2)
    answered = () if scores.answered is None else (-scores.answered,)
    return start_rp, scores.likeliest, end_rpe, at_rpe, *answered


def _in_place(scored: Said, count: int) -> NDArray[np.float64]:
    """Scores in the order of the examples, one row per example."""
    in_order: NDArray[np.float64] | None = None
    for batch, (values,) in scored:
        in_order = np.zeros((count, values.shape[1])) if in_order is None else in_order
        in_order[batch.rows] = values
    return np.zeros((count, 1)) if in_order is None else in_order


def _labels(labels: Labels, scored: Said, count: int) -> Answers:
    parts = _softmax(_in_place(scored, count))
    labels_given: list[AnswerValue] = [labels.names[best] for best in parts.argmax(1)]
    return Answers(labels_given, [tuple(row) for row in parts.tolist()])


def _scores(scored: Said, count: int) -> Answers:
    return Answers([float(score) for score in _in_place(scored, count)[:, 0]])


def _choices(choice: Choice, scored: Said, count: int) -> Answers:
    scores = np.full((count, choice.most), -np.inf)
    for batch, (values,) in scored:
        there = batch.weights.reshape(-1, choice.most) > 0
        scores[batch.rows[:: choice.most] // choice.most] = np.where(there, values, -np.inf)
    parts = _softmax(scores)
    labels_given: list[AnswerValue] = [int(best) for best in parts.argmax(1)]
    return Answers(labels_given, [tuple(row) for row in parts.tolist()])


def _tags(tags: Tags, rows: TaskRows, scored: Said) -> Answers:
    """The tag of every word; a word without a scored token gets `O`, or the first tag."""
    counts = np.diff(rows.word_begins)
    unscored = "O" if "O" in tags.names else tags.names[0]
    labels_given: list[AnswerValue] = [() for _ in counts]
    sure: list[tuple[float, ...]] = [() for _ in counts]
    for batch, (scores,) in scored:
        values = _softmax(scores)
        for nth, row in enumerate(batch.rows.tolist()):
            words = rows.words[rows.word_begins[row] : rows.word_begins[row + 1]]
            best = values[nth, : len(words)].argmax(1)
            names = (
                tags.names[b] if at >= 0 else unscored for b, at in zip(best, words, strict=True)
            )
            labels_given[row] = tuple(names)
            sure[row] = tuple(values[nth, : len(words)].max(1).tolist())
    return Answers(labels_given, sure)


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))
