"""Remarks on the examples of a task: rows that parts share, and what of them is cut."""

from collections.abc import Mapping
from dataclasses import replace

from bertc.base.diagnostics import several
from bertc.ir.learning.custom_task import AnyTask
from bertc.tasks.examples.task_rows import TaskRows
from bertc.tasks.layouts.example import Examples


def notes_on_shared(learned: Examples, parts: Mapping[str, Examples]) -> list[str]:
    """Remarks on rows without text, and on rows of parts that are training rows too."""
    rows, notes = {replace(example, key="") for example in learned}, list[str]()
    if count := sum(not "".join(getattr(row, "texts", "a text")).strip() for row in learned):
        notes.append(f"{count:,} of {len(learned):,} training examples have no text")
    for part, examples in parts.items():
        if count := sum(replace(example, key="") in rows for example in examples):
            notes.append(
                f"{count:,} of {len(examples):,} {part} examples are training examples too, so "
                "that their scores are too high; take them out of one of the two files"
            )
    return notes


def notes_on_cuts(task: AnyTask, rows: TaskRows, count: int, name: str, seq: int) -> list[str]:
    """Remarks on what is cut of ``count`` examples of a part, with the limit."""
    notes, of = [], f"of {count:,} {name}examples"
    if rows.num_questions_cut:
        limit = getattr(task, "question", 0)
        what = "questions" if task.answer.kind == "span" else "questions with a choice"
        cut = f"{rows.num_questions_cut:,} {of}"
        notes.append(f"the {what} of {cut} are cut to {limit} tokens (question=)")
    if rows.num_cut:
        may_window = name == "training " and getattr(task, "stride", 1) == 0
        window = "; stride= reads them in windows" if may_window else ""
        notes.append(f"{rows.num_cut:,} {of} are cut to {seq} tokens{window}")
    if rows.num_windowed:
        passes = -(-len(rows.owners) // max(1, count))
        enough = f"; epochs={passes} reads all of them" if name == "training " else ""
        read = f"{rows.num_windowed:,} {of} are read in windows: {len(rows.owners):,} rows"
        notes.append(f"{read}{enough}")
    if rows.num_narrow:
        notes.append(
            f"the windows of {rows.num_narrow:,} {of} are shorter than their question: a longer "
            f"seq or less than question={getattr(task, 'question', 0)} leaves them more room"
        )
    if rows.num_unread and task.answer.kind == "span":
        notes.append(
            f"the answers of {rows.num_unread:,} {of} stand in no window as a whole: a longer seq "
            "has longer windows, a smaller stride more of them"
        )
    elif rows.num_unread:
        words_lost = several(rows.num_unread, "word")
        notes.append(f"{words_lost} {of} have no token in a row of {seq}, and are answered unread")
    return notes
