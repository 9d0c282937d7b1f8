"""Scores of graphs on the dev parts of a run's tasks, computed by another runtime.

Axes: b batch, k positions read, c scores of a position.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bertc.base.diagnostics import MissingInputError
from bertc.data.cache.progress import Silent
from bertc.ir.learning.answer import Choice, Labels, Score, Span, Tags, Vector
from bertc.ir.learning.custom_task import AnyTask
from bertc.learn.objectives import MicroBatch, TaskTargets, TermLoss
from bertc.learn.objectives.answers import (
    SpanScores,
    TaskTensors,
    answer_losses,
    answer_scores,
    span_scores,
)
from bertc.model import gather_positions
from bertc.run.evaluation.task_inference import Within
from bertc.run.evaluation.tasks import evaluate_files
from bertc.use.graph import Graph

Runtime = Callable[[Mapping[str, NDArray[np.int64]]], Mapping[str, NDArray[np.float32]]]
TaskOutputs = Callable[[MicroBatch], tuple[torch.Tensor | SpanScores, TermLoss]]


def graph_scores(
    run: Path, graph: Graph, runtimes: Mapping[str, Runtime], examples: int = 0
) -> tuple[dict[str, dict[str, float]], tuple[str, ...]]:
    """The first metric of each task and part, by the name of the runtime, and notes.

    A runtime computes a graph: outputs by name from integer inputs (b, s) by name. At most
    ``examples`` of a part are scored (0: all). A task without files to score it on has a note.
    """
    scores: dict[str, dict[str, float]] = {name: {} for name in runtimes}
    notes: dict[str, None] = {}
    languages = len(graph.model.encoder.node.languages)
    for name, session in runtimes.items():
        for task in graph.model.resolved.stages[-1].tasks:
            outputs = in_runtime(session, task, languages)
            try:
                output, sources = evaluate_files(
                    run,
                    task.title,
                    "cpu",
                    most=examples,
                    within=in_place(outputs),
                    progress=Silent(),
                )
            except MissingInputError as error:
                notes[f"{task.title} was not scored: {error.message}"] = None
                continue
            for part, values in output.scores[task.title].items():
                metric = task.metrics[0]
                scores[name][f"{task.title} {part}, {metric}"] = values[metric]
            notes |= dict.fromkeys(sources)
    return scores, tuple(notes)


def in_place(outputs: TaskOutputs) -> Within:
    """A decorator that calls ``outputs`` in place of the function it is given."""
    return lambda _: outputs


def in_runtime(session: Runtime, task: AnyTask, languages: int) -> TaskOutputs:
    """A function in place of ``task_inference.outputs``, with the scores of a graph."""
    head = nn.Identity()  # the graph has applied its own

    def outputs(micro_batch: MicroBatch) -> tuple[torch.Tensor | SpanScores, TermLoss]:
        reading, targets = micro_batch.reading, micro_batch.terms[task.title]
        assert reading.attention_mask is not None, "rows of one example each"
        assert reading.segment_ids is not None, "rows of examples have segments"
        mask = reading.attention_mask.long().numpy()
        inputs = {
            "input_ids": reading.token_ids.numpy(),
            "attention_mask": mask,
            "token_type_ids": reading.segment_ids.numpy(),
            "language_ids": np.full_like(mask, languages),
        }
        output = torch.from_numpy(session(inputs)[task.title])
        if isinstance(task.answer, Vector):
            nothing = output.new_zeros(())
            return output, TermLoss(nothing, nothing, nothing)
        scores_bkc = _of_positions(task, output, targets)
        loss = TaskTensors(task).loss(
            answer_losses(task.answer, targets, scores_bkc, head), targets
        )
        if isinstance(task.answer, Span):
            return span_scores(task.answer, targets, scores_bkc, head), loss
        return answer_scores(task.answer, scores_bkc, head), loss

    return outputs


def _of_positions(task: AnyTask, scores: torch.Tensor, targets: TaskTargets) -> torch.Tensor:
    """Scores of the positions that are read, from an output of the graph."""
    match task.answer:
        case Labels():
            return scores[:, None]
        case Score() | Choice():
            return scores[:, None, None]
        case Tags():
            return gather_positions(scores, targets.positions)
        case Span() | Vector():
            return scores
        case unreachable:
            assert_never(unreachable)
