"""Evaluation of tasks: what a model answers to the parts they are judged by, and how well."""

import math
from collections.abc import Sequence
from pathlib import Path

from bertc.data import TaskData, TaskSet, encode, vocabulary_of
from bertc.data.layouts import judged_parts, part_examples
from bertc.diagnostics import MissingInputError
from bertc.interop.loading import load
from bertc.ir.resolved import Stage
from bertc.nn import Model
from bertc.tasks.gold import Given
from bertc.tasks.metrics import judge
from bertc.train.answering import Within, answer
from bertc.train.asked import task_of
from bertc.train.evaluation import Evaluation
from bertc.train.placing import placed
from bertc.train.stopping import Stop


def evaluate_tasks(
    model: Model,
    stage: Stage,
    data: TaskData,
    stop: Stop | None = None,
    within: Within = lambda function: function,
) -> Evaluation:
    """Evaluate on every part of every task, all of it; of many processes each does all of it.

    Raises:
        StoppedError: if someone asked the run to stop meanwhile.
    """
    losses, accuracy, scores, always, total = {}, {}, {}, dict[str, dict[str, str]](), 0
    for own in data.sets:
        found, parts = {}, []
        for part, (examples, rows) in own.parts.items():
            pad = data.vocabulary.pad
            answers = answer(model, stage, own, examples, rows, pad, stop, within=within)
            found[part] = judge(own.task, examples, answers.given)
            if (said := _one_for_all(answers.given)) is not None:
                always.setdefault(own.task.title, {})[part] = said
            parts.append((len(examples), answers))
            total += len(examples)
        if not parts:
            continue
        title, count = own.task.title, sum(size for size, _ in parts)
        losses[title] = math.fsum(size * a.loss for size, a in parts) / count
        accuracy[title] = math.fsum(size * a.accuracy for size, a in parts) / count
        scores[title] = found
    weights = {term.name: term.weight for term in stage.objective}
    loss = math.fsum(weights[name] * value for name, value in losses.items())
    return Evaluation(loss, losses, accuracy, total, scores=scores, always=always)


def _one_for_all(given: Sequence[Given]) -> str | None:
    """The label, tag or span that is all that several examples were given."""
    said = {one for each in given for one in (each if isinstance(each, tuple) else (each,))}
    only = said.pop() if len(said) == 1 and len(given) > 1 else None
    return only if isinstance(only, str) else None


def evaluate_files(run: Path, told: str, device: str = "auto") -> Evaluation:
    """What a model makes of the parts that a task names, ``dev`` or those of its folder.

    Raises:
        UsageError, SpecError: as ``task_of``.
        MissingInputError: if there is no model, or no part to judge by.
        DataError: if a file is not in the layout of the task.
    """
    model = load(run)
    stage, task = task_of(model.resolved, told)
    vocabulary = vocabulary_of(run, stage.encoder.vocab_size)
    seq, segments = stage.seq, stage.encoder.kinds_of_segments
    parts = {part: part_examples(task, part) for part in judged_parts(task)}
    if not parts:
        raise MissingInputError(
            f"{task.title}: no part to judge by", help=f"--task \"{task.kind}(dev='dev.tsv')\""
        )
    placed(model, device)
    rows = {
        part: (found, encode(task, found, vocabulary, seq, segments))
        for part, found in parts.items()
    }
    own = TaskSet(task, encode(task, (), vocabulary, seq, segments), rows)
    only = stage.model_copy(
        update={"objective": tuple(t for t in stage.objective if t.name == task.title)}
    )
    return evaluate_tasks(model, only, TaskData(vocabulary, 0, stage.batch, seq, (own,), 1.0))
