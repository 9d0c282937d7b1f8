"""The tasks of a stage, read from their files and made rows."""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from bertc.data.batches.order import permute
from bertc.data.cache.progress import Progress
from bertc.data.examples.encode import TaskRows, encode
from bertc.data.examples.task import TaskData, TaskSet
from bertc.data.layouts import judged_parts, part_examples, training_examples
from bertc.data.layouts.example import Example, Labelled, Scored
from bertc.data.vocab.vocabulary import Vocabulary
from bertc.diagnostics import DataError, listed
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.learning.task import Glue
from bertc.ir.program.resolved import Stage

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
    return _drawn(examples, task.examples, "examples", task.title)


def judged_on(
    task: AnyTask, part: str, examples: Sequence[Example], most: int = 0
) -> Sequence[Example]:
    """The examples of a part that a model is scored on, the same every time.

    At most ``most``, where that is told, and else of dev parts as many as the task says.
    """
    own = task.dev_examples if part.startswith("dev") else 0
    return _drawn(examples, most or own, "judged", task.title, part)


def _drawn(examples: Sequence[Example], most: int, *address: str) -> Sequence[Example]:
    """So many of the examples in their order, whatever the seed; all for 0."""
    if not 0 < most < len(examples):
        return examples
    drawn = permute(np.arange(most), len(examples), 0, *address)
    return [examples[i] for i in np.sort(drawn)]


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
        found = {part: part_examples(task, part) for part in judged_parts(task)}
        parts = {part: judged_on(task, part, examples) for part, examples in found.items()}
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
        for note in (*_sampled(found, parts), *_notes(own, len(learned), stage)):
            progress.note(f"{task.title}: {note}")
        sets.append(own)
    return TaskData(vocabulary, seed, stage.batch, stage.seq, tuple(sets), stage.smoothing, 0)


def _sampled(
    found: Mapping[str, Sequence[Example]], parts: Mapping[str, Sequence[Example]]
) -> list[str]:
    """Which parts are answered by a sample of their examples alone."""
    return [
        f"judged by {len(parts[name]):,} of {len(examples):,} {name} examples, as dev_examples says"
        for name, examples in found.items()
        if len(parts[name]) < len(examples)
    ]


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
        notes += unread(own.task, rows, count, f"{name} ", stage.seq)
    return notes


def unread(task: AnyTask, rows: TaskRows, count: int, name: str, seq: int) -> list[str]:
    """What of ``count`` examples of a part is not read, with the limit that it is beyond."""
    notes, of = [], f"of {count:,} {name}examples"
    if rows.asked_cut:
        limit = getattr(task, "question", 0)
        what = "questions" if task.answer.kind == "span" else "questions with a choice"
        notes.append(f"the {what} of {rows.asked_cut:,} {of} are cut to {limit} tokens (question=)")
    if rows.cut:
        notes.append(f"{rows.cut:,} {of} are cut to {seq} tokens")
    if rows.lost and task.answer.kind == "span":
        notes.append(
            f"the answers of {rows.lost:,} {of} stand in no window as a whole: a longer seq has "
            "longer windows, a smaller stride more of them"
        )
    elif rows.lost:
        words = f"{rows.lost:,} words" if rows.lost > 1 else "1 word"
        notes.append(f"{words} {of} are beyond the {seq} tokens of a row, and answered unread")
    if rows.blank:
        shown = listed([repr(word) for word in dict.fromkeys(rows.blank)], limit=60)
        notes.append(f"words that no token stands for, {len(rows.blank):,} {of}: {shown}")
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
