"""The tasks of a stage, read from their files and made rows."""

import hashlib
from collections.abc import Sequence

import numpy as np

from bertc.data.encode import TaskRows, encode
from bertc.data.examples import Example, Labelled, Scored
from bertc.data.layouts import judged_parts, part_examples, training_examples
from bertc.data.order import permute
from bertc.data.progress import Progress
from bertc.data.task import TaskData, TaskSet
from bertc.data.vocabulary import Vocabulary
from bertc.diagnostics import DataError
from bertc.ir.own_task import AnyTask
from bertc.ir.resolved import Stage
from bertc.ir.task import Glue

SAMPLE = 1000
"""Examples that tell how long all are, about."""


def learned_from(task: AnyTask, examples: Sequence[Example]) -> Sequence[Example]:
    """What a task learns of its training examples: pairs in both orders, or not all, if it says so.

    Raises:
        DataError: it says that there are more.
    """
    if isinstance(task, Glue) and task.both_orders:
        examples = [*examples, *map(_swapped, examples)]
    if task.examples > len(examples):
        raise DataError(
            f"{task.title} has {len(examples):,} training examples, not {task.examples:,}",
            help="without examples=... all are counted; fewer are drawn from them",
        )
    if 0 < task.examples < len(examples):
        drawn = permute(np.arange(task.examples), len(examples), 0, "examples", task.title)
        return [examples[i] for i in np.sort(drawn)]
    return examples


def _swapped(example: Example) -> Example:
    match example:
        case Labelled():
            return Labelled(f"{example.key}, swapped", example.texts[::-1], example.label)
        case Scored():
            return Scored(f"{example.key}, swapped", example.texts[::-1], example.score)
        case _:
            return example


def mean_length(task: AnyTask, vocabulary: Vocabulary, seq: int, segments: int) -> float:
    """Tokens of a training row, the mean over a sample of the examples.

    Raises:
        MissingInputError, DataError: as the layouts.
    """
    examples = learned_from(task, training_examples(task))
    sample = examples[:: max(1, len(examples) // SAMPLE)]
    return float(encode(task, sample, vocabulary, seq, segments).lengths.mean())


def read_tasks(stage: Stage, vocabulary: Vocabulary, seed: int, progress: Progress) -> TaskData:
    """All that a stage of tasks reads.

    Raises:
        MissingInputError, DataError: as the layouts.
    """
    sets = []
    for task in stage.tasks:
        progress.begin(f"reading {task.title}", 0, "rows")
        learned = learned_from(task, training_examples(task))
        parts = {part: part_examples(task, part) for part in judged_parts(task)}
        segments = stage.encoder.kinds_of_segments
        own = TaskSet(
            task,
            encode(task, learned, vocabulary, stage.seq, segments),
            {
                part: (examples, encode(task, examples, vocabulary, stage.seq, segments))
                for part, examples in parts.items()
            },
        )
        progress.end()
        for note in _notes(own, len(learned), stage):
            progress.note(f"{task.title}: {note}")
        sets.append(own)
    return TaskData(vocabulary, seed, stage.batch, stage.seq, tuple(sets), stage.smoothing, 0)


def _notes(own: TaskSet, examples: int, stage: Stage) -> list[str]:
    """What was lost of the text, and of what is asked; what there is too little of."""
    parts = {"training": (examples, own.train)}
    parts |= {name: (len(found), rows) for name, (found, rows) in own.parts.items()}
    notes = [] if own.parts else ["no part to be judged by: no score will be told"]
    if stage.batch > own.units:
        times = stage.batch / own.units
        notes.append(
            f"a batch of {stage.batch:,} reads the {own.units:,} there are {times:.1f} times"
        )
    for name, (count, rows) in parts.items():
        if rows.cut:
            notes.append(f"{rows.cut:,} of {count:,} {name} examples are cut to {stage.seq} tokens")
        if rows.lost and own.task.answer.kind == "span":
            notes.append(
                f"the answers of {rows.lost:,} of {count:,} {name} examples stand in no window as a"
                " whole: a longer seq has longer windows, a smaller stride more of them"
            )
        elif rows.lost:
            notes.append(f"{rows.lost:,} words are not read in {name} examples")
    return notes


def digest(data: TaskData) -> str:
    """sha256 of all rows that are learned from or judged by."""
    found = hashlib.sha256()
    for own in data.sets:
        for rows in (own.train, *(rows for _, rows in own.parts.values())):
            found.update(_content(rows))
    return found.hexdigest()


def _content(rows: TaskRows) -> bytes:
    arrays = (rows.token_ids, rows.segment_ids, rows.begins, rows.targets, rows.words, rows.tags)
    return b"".join(hashlib.sha256(array.tobytes()).digest() for array in arrays)
