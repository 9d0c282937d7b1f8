"""Answers of a model: to a few rows of its dev file, or in place of words of its text."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bertc import UsageError, load
from bertc.lab.report.page import Part
from bertc.lab.results.runs import Run
from bertc.lab_api import Table, survey

SAMPLES, LONGEST_CELL, TOP = 4, 160, 3
"""Texts that are shown, characters of each, and candidates for a word."""
READ_BYTES, FEWEST_WORDS = 1 << 16, 5
PACKED = (".gz", ".zst")


def samples_section(run: Run) -> Sequence[Part]:
    """A table of texts with what the model answers; nothing for others than tables and text."""
    stage = run.resolved.stages[-1]
    if stage.tasks:
        task = stage.tasks[0]
        file = getattr(task, "dev", "") or getattr(task, "data", "")
        columns = survey(file).columns if isinstance(file, str) and file else {}
        cells = zip(*columns.values(), strict=True)
        rows = [dict(zip(columns, row, strict=True)) for row in cells]
        return [_answer_rows(run.folder, task.title, rows[:SAMPLES], file)] if rows else []
    files = [getattr(share.corpus, "path", "") for share in stage.data]
    texts = [*islice(_sentences(files[0]), SAMPLES)] if files and files[0] else []
    return _fill_masks(run.folder, texts, files[0]) if texts else []


def _answer_rows(folder: Path, task: str, rows: Sequence[dict[str, str]], file: str) -> Table:
    """Rows of a file with the answer to each."""
    answers = load(folder).predict(rows, task)
    table = [(*map(_cut, row.values()), _say(a)) for row, a in zip(rows, answers, strict=True)]
    return Table((*rows[0], "answer"), table, notes=(f"The first rows of {file}.",))


def _say(answer: dict[str, Any]) -> str:
    """The answer itself, and its probability if that is known."""
    given, likely = next(iter(answer.values())), answer.get("probabilities")
    if isinstance(likely, dict) and isinstance(given, str) and given in likely:
        return f"{given} ({likely[given]:.0%})"
    return _cut(f"{given:.4g}" if isinstance(given, float) else str(given))


def _sentences(name: str) -> Iterator[str]:
    """The first sentences of a text that have some words."""
    seen = survey(name)
    file, column = seen.files[0], next(iter(seen.columns.values()), ())
    if isinstance(file, Path) and not column and file.suffix not in PACKED:
        with file.open("rb") as opened:
            column = tuple(opened.read(READ_BYTES).decode(errors="ignore").splitlines()[:-1])
    for line in column:
        sentence = re.split(r"(?<=[.!?])\s", line.strip())[0][:LONGEST_CELL]
        if len(sentence.split()) >= FEWEST_WORDS:
            yield sentence


def _fill_masks(folder: Path, texts: Sequence[str], file: str) -> Sequence[Part]:
    """Sentences of which the longest word is masked, and what the model has in its place."""
    model, rows = load(folder), list[tuple[str, ...]]()
    for text in texts:
        word = max(re.findall(r"\w+", text), key=len)
        masked = re.sub(rf"\b{re.escape(word)}\b", "[MASK]", text, count=1)
        try:
            filled = model.fill(masked, TOP)
        except UsageError:  # its objectives predict no tokens
            return ()
        likely = (f"{guess.token} {guess.probability:.0%}" for guess in filled.masks[0])
        rows.append((masked, word, ", ".join(likely)))
    note = f"The first sentences of {file}, which training has read but for what was held out."
    return (Table(("text", "word", "filled"), rows, notes=(note,)),)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 3]}..."
