"""Answers of a model to the examples of a task.

Axes: r rows per batch, p likeliest starts, e ends per start, s tokens.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from bertc.ir.learning import AnyTask, Embed, NamedSpans, Span
from bertc.ir.program import MAIN, Stage
from bertc.learn.objectives import HeadInput, MicroBatch, answers as scoring, joined, states_of
from bertc.learn.objectives.text.pairs import EmbedTensors
from bertc.learn.step.feed import to_micro_batch
from bertc.machine.machine import finish
from bertc.machine.signals import Stop
from bertc.model import Model
from bertc.run.evaluation.answers import Answers, Said, read_off
from bertc.tasks.examples.task import TaskBatch, TaskSet, in_order_of_length
from bertc.tasks.examples.task_rows import TaskRows
from bertc.tasks.layouts.example import Examples
from bertc.tasks.metrics.calibration import NO_FIT, HeadFit
from bertc.text.cache.store import Progress, Silent

TOKENS_AT_ONCE = {"cpu": 1 << 11, "cuda": 1 << 16}
ROWS_AT_ONCE = 256
BYTES_AT_ONCE = 64 << 20
"""Bytes of scores that are copied to main memory between two synchronisations."""

Tensors = tuple[Tensor, ...]
Within = Callable[[Callable[..., Any]], Callable[..., Any]]
"""A decorator of a forward-only function: to call it under an engine, or another in its place."""


@torch.no_grad()
def answer(
    model: Model,
    stage: Stage,
    task_set: TaskSet,
    examples: Examples,
    rows: TaskRows,
    pad: int,
    stop: Stop | None = None,
    within: Within = lambda function: function,
    progress: Progress | None = None,
    fit: HeadFit = NO_FIT,
) -> Answers:
    """Answer all examples, batched with others of similar length."""
    training, device, task = model.training, next(model.parameters()).device, task_set.task.judged
    totals = torch.zeros(4, dtype=torch.float64, device=device)
    score, display = within(partial(outputs, model, stage, task)), progress or Silent()

    def said() -> Said:
        """Scores of all rows, batch by batch; adds losses, hits, counts, weights to the totals."""
        waiting, waiting_bytes = list[tuple[TaskBatch, Tensors]](), 0
        at_once = TOKENS_AT_ONCE[device.type], ROWS_AT_ONCE
        for batch in in_order_of_length(task_set, rows, *at_once, pad):
            if stop:
                stop.check()
            scores, sums = score(to_micro_batch(batch, device))
            totals.add_(sums.double())
            copied = tuple(tensor.to("cpu", non_blocking=True) for tensor in _score_tensors(scores))
            waiting.append((batch, copied))
            waiting_bytes += sum(tensor.nbytes for tensor in copied)
            display.advance(len(batch.rows))
            if waiting_bytes > BYTES_AT_ONCE:
                yield from _on_host(waiting, device)
                waiting, waiting_bytes = [], 0
        yield from _on_host(waiting, device)

    model.eval()
    try:
        answers = read_off(task, examples, rows, said(), stage.batch, fit)
    finally:
        model.train(training)
    loss, hits, count, weight = totals.tolist()
    if isinstance(task_set.task, Embed):  # whose loss is of all vectors
        return answers
    return replace(answers, loss=loss / (weight or 1.0), accuracy=hits / max(count, 1.0))


def _on_host(copied: list[tuple[TaskBatch, Tensors]], device: torch.device) -> Said:
    finish(device)
    for batch, tensors in copied:
        yield batch, tuple(tensor.double().numpy() for tensor in tensors)


def outputs(
    model: Model, stage: Stage, task: AnyTask, micro_batch: MicroBatch
) -> tuple[Tensor | scoring.SpanScores, Tensor]:
    """Scores of a task's head for a batch, and the summed loss, hits, predictions, weights (4,)."""
    targets, network = micro_batch.terms[task.title], stage.network(MAIN)
    outputs = model.read_on(micro_batch.read_by(network), request=task.wanted(learned=True))
    last = states_of(joined([task]), micro_batch, network, outputs)[task.head_name]
    if isinstance(task, Embed):  # one vector a text need not be learned
        mapped = task.dense or task.answer.of_states
        maps = model.heads[task.head_name] if mapped else nn.ModuleList()
        vectors = EmbedTensors(task).vectors(last[0], targets, maps, model.encoder)
        return vectors, vectors.new_zeros(4)
    tensors, head = scoring.TaskTensors(task), model.heads[task.title]
    layers = (*last, *tensors.taken(outputs, learned=True))
    states = tensors.read(targets, HeadInput(layers, micro_batch, head, model.encoder))
    loss = tensors.loss(scoring.answer_losses(task, targets, states, head), targets)
    sums = torch.stack([loss.sum, loss.correct, loss.count, tensors.count(targets)])
    if isinstance(task.answer, NamedSpans):
        return scoring.named_scores(task, targets, states, head), sums
    if not isinstance(task.answer, Span):
        return scoring.answer_scores(task.answer, states, head), sums
    return scoring.span_scores(targets, states, head), sums


def _score_tensors(scores: Tensor | scoring.SpanScores) -> Tensors:
    """Tensors of scores, small enough to copy to main memory; of spans (r, s), or of a beam."""
    if isinstance(scores, Tensor):
        return (scores,)
    if scores.likeliest is None:
        return scores.starts, scores.ends
    start_rp = scores.starts.log_softmax(1).gather(1, scores.likeliest)
    end_rps = scores.ends.log_softmax(2)
    end_rpe, at_rpe = end_rps.topk(min(scoring.ENDS, end_rps.shape[2]), dim=2)
    answered = () if scores.answered is None else (-scores.answered,)
    return start_rp, scores.likeliest, end_rpe, at_rpe, *answered
