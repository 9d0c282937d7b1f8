"""Spans of passages, read off scores of their windows.

Axes: w windows.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bertc.data.examples.task_rows import TaskRows
from bertc.data.layouts.example import Example, QuestionExample
from bertc.data.metrics.spans import Decoded, Window, decode_conditioned, decode_plain
from bertc.ir.learning.answer import Span
from bertc.ir.learning.custom_task import AnyTask, Read
from bertc.ir.learning.task import Squad
from bertc.run.evaluation.said import Answers, Said


def span_answers(
    span: Span, task: AnyTask, examples: Sequence[Example], rows: TaskRows, scored: Said
) -> Answers:
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
    assert isinstance(example, QuestionExample), "spans need a question"
    places = [
        Window(
            int(rows.owners[row]),
            int(rows.firsts[row]),
            rows.offsets[rows.begins[row] : rows.begins[row + 1]],
        )
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
    stacked = [_stacked([arrays[which] for _, arrays in windows]) for which in range(4)]
    none_w = np.array([float(arrays[4]) for _, arrays in windows]) if span.unanswerable else None
    return decode_conditioned(
        example.passage, places, stacked[0], stacked[1].astype(np.int64), stacked[2],
        stacked[3].astype(np.int64), none_w, best=task.best, longest=task.longest,
        threshold=task.threshold,
    )  # fmt: skip


def _stacked(parts: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Stack windows, cut to the number of starts that the shortest has."""
    fewest = min(len(part) for part in parts)
    return np.stack([part[:fewest] for part in parts])
