"""Evaluation of tasks: answers of a model to the scored parts, and their metrics."""

import math
from collections.abc import Collection, Sequence
from pathlib import Path

from bertc.base.diagnostics import several
from bertc.data.cache.store import Progress, Silent
from bertc.data.examples.encode import encode
from bertc.data.examples.remarks import notes_on_cuts
from bertc.data.examples.task import TaskSet
from bertc.data.examples.task_data import TaskData
from bertc.data.examples.task_sets import scored_sample
from bertc.data.layouts.parts import read_examples, scored_parts
from bertc.data.layouts.table import source_name
from bertc.data.metrics.gold import AnswerValue
from bertc.data.metrics.metrics import ByClass, by_class, judge
from bertc.data.vocab.existing import vocabulary_of
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.program.stage import Stage
from bertc.machine.signals import Stop
from bertc.model import Model
from bertc.run.evaluation.details import Details
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.evaluation.task_inference import Within, answer
from bertc.run.evaluation.task_lookup import columns_told, names_files, nothing_to_judge_by, task_of
from bertc.run.evaluation.without import without_heads
from bertc.run.models.loading import load, placed


def evaluate_tasks(
    model: Model,
    stage: Stage,
    data: TaskData,
    stop: Stop | None = None,
    within: Within = lambda function: function,
    progress: Progress | None = None,
    details: Details | None = None,
) -> Evaluation:
    """Evaluate on every scored part of every task; with several processes each does all of it."""
    losses, accuracy, scores, always, total = {}, {}, {}, dict[str, dict[str, str]](), 0
    classes: dict[str, dict[str, ByClass]] = {}
    progress = progress or Silent()
    for task_set in data.sets:
        by_part, parts = {}, []
        for part, (examples, rows) in task_set.parts.items():
            pad, title = data.vocabulary.pad, task_set.task.title
            what = f"answering {several(len(examples), 'example')} of {title} {part}"
            progress.begin(what, len(rows.owners), "rows")
            answers = answer(
                model, stage, task_set, examples, rows, pad, stop, within=within, progress=progress
            )
            progress.end()
            by_part[part] = judge(task_set.task, examples, answers.given)
            if (by_label := by_class(task_set.task, examples, answers.given)) is not None:
                classes.setdefault(task_set.task.title, {})[part] = by_label
            if details:
                details.see(model, task_set.task, part, examples, answers)
            if (labels := _one_for_all(answers.given)) is not None:
                always.setdefault(task_set.task.title, {})[part] = labels
            parts.append((len(examples), answers))
            total += len(examples)
        if not parts:
            continue
        title, count = task_set.task.title, sum(size for size, _ in parts)
        losses[title] = math.fsum(size * a.loss for size, a in parts) / count
        accuracy[title] = math.fsum(size * a.accuracy for size, a in parts) / count
        scores[title] = by_part
    # A task that is learned from a teacher alone weighs nothing, and its loss is told all the same.
    weights = {term.name: term.weight or 1.0 for term in stage.objective}
    loss = math.fsum(weights[name] * value for name, value in losses.items())
    return Evaluation(loss, losses, accuracy, total, scores=scores, always=always, classes=classes)


def _one_for_all(given_answers: Sequence[AnswerValue]) -> str | None:
    """The label, tag or span that all of several examples were given; None if they differ."""
    labels = {
        label
        for value_or_tags in given_answers
        for label in (value_or_tags if isinstance(value_or_tags, tuple) else (value_or_tags,))
    }
    if not labels and len(given_answers) > 1:
        return ""
    only = labels.pop() if len(labels) == 1 and len(given_answers) > 1 else None
    return only if isinstance(only, str) else None


def evaluate_files(
    run: Path,
    request: str,
    device: str = "auto",
    *,
    part: str = "",
    most: int = 0,
    without: Collection[tuple[int, int]] = (),
    progress: Progress | None = None,
    details: Details | None = None,
) -> tuple[Evaluation, tuple[str, ...]]:
    """Evaluate a model on the scored parts of a task; also returns notes on the files read."""
    model = load(run)
    stage, task = task_of(model.resolved, request)
    vocabulary = vocabulary_of(run, stage.encoder.vocab_size)
    seq, segments = stage.seq, stage.encoder.kinds_of_segments
    sources, rows, notes = scored_parts(task, part, names_files(request)), {}, []
    if not sources:
        raise nothing_to_judge_by(task)
    for name, source in sources.items():
        with columns_told(task, with_labels=True):
            every = read_examples(task, source)
        scored = scored_sample(task, name, every, most)
        read = encode(task.judged, scored, vocabulary, seq, segments)
        rows[name] = scored, read
        notes.append(_read_from(task, name, source_name(source.source), len(scored), len(every)))
        lost = notes_on_cuts(task, read, len(scored), f"{name} ", seq)
        notes += [f"{task.title}: {note}" for note in lost]
    placed(model, device)
    task_set = TaskSet(task, encode(task, (), vocabulary, seq, segments), rows)
    terms = tuple(term for term in stage.objective if term.name == task.title)
    only = stage.model_copy(update={"objective": terms})
    data = TaskData(vocabulary, 0, stage.batch, seq, (task_set,), 1.0)
    with without_heads(model, without):
        return evaluate_tasks(model, only, data, progress=progress, details=details), tuple(notes)


def sources_told(data: TaskData) -> tuple[str, ...]:
    """The source file of each part of every task, a line each."""
    return tuple(
        _read_from(part.task, name, source_name(scored_parts(part.task)[name].source), len(scored))
        for part in data.sets
        for name, (scored, _) in part.parts.items()
    )


def _read_from(task: AnyTask, part: str, source: str, count: int, every: int = 0) -> str:
    of = f"{count:,} of " if count < every else ""
    read = of + several(max(count, every), "example")
    where = "" if source == part else f" of {source}"
    return f"{task.title} {part}: {read}{where}"
