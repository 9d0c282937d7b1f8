"""``bertc predict``: answers to the rows of a file, next to their columns."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import UsageError, several
from bertc.ir.learning import AnyTask, Choose, Spans, Tag, answer as kinds
from bertc.ir.learning.task import OwnTask
from bertc.ir.program import Stage
from bertc.ir.program.settings import RunPrecision
from bertc.machine.display import choose
from bertc.model import Model
from bertc.run.evaluation.answers import Answers
from bertc.run.evaluation.task_inference import answer
from bertc.run.evaluation.task_lookup import columns_told, task_of
from bertc.run.models.loading import load, place_on_device
from bertc.run.records.calibration import fit_of_head
from bertc.tasks.examples.encode import encode
from bertc.tasks.examples.task import TaskSet
from bertc.tasks.examples.task_rows import notes_on_cuts
from bertc.tasks.layouts import example
from bertc.tasks.layouts.parts import examples_of
from bertc.tasks.layouts.table import DataPart, is_table, names_of_columns, table
from bertc.tasks.metrics.calibration import NO_FIT, HeadFit
from bertc.text.cache.store import Progress, Silent
from bertc.text.sources.cells import PART
from bertc.text.sources.tables import ColumnSelection
from bertc.text.vocab.vocabulary import Vocabulary, vocabulary_of
from bertc.use.answer_files import answer_lines, write_answer_file

NAMING = (
    "text", "pair", "label", "passage", "choices", "words", "tags", "target", "start", "positive",
    "negative", "score",
)  # fmt: skip
"""Arguments of tasks that name columns."""
Cells = dict[str, Any]


def columns_of(task: AnyTask, path: Path) -> Iterator[Cells] | None:
    """The columns of each row by name; None of files in official layouts."""
    if not (isinstance(task, OwnTask) and is_table(path)):
        return None
    values = [getattr(task, name, "") for name in NAMING]
    columns = [name for value in values for name in ([value] if isinstance(value, str) else value)]
    names = names_of_columns(path)
    if all(map(str.isdecimal, filter(None, columns))):
        names = [str(number) for number in range(len(names))]
    names = list(dict.fromkeys(names))
    rows = table(path, ColumnSelection((), tuple(names)))  # a row for each example
    return ({name: _plain(c) for name, c in zip(names, cells, strict=True)} for _, cells in rows)


def _plain(cell: Any) -> Any:
    if isinstance(cell, float):
        return cell if math.isfinite(cell) else None
    return cell if isinstance(cell, str | int | list | dict | None) else str(cell)


def _texts(task: AnyTask, read: example.Example) -> Cells:
    match read:
        case example.TextExample():
            return dict(zip(task.reads, read.texts, strict=False))
        case example.ChoiceExample():
            return {"question": read.question, "choices": read.choices}
        case example.TaggedExample():
            return {"words": read.words}
        case example.QuestionExample():
            return {"question": read.question}
        case example.SearchExample():
            return {"text": read.text}


@dataclass(frozen=True)
class Predicted:
    """The answers to the rows of a file, in their order; ``seconds`` is time in the model."""

    task: AnyTask
    examples: list[example.Example]
    answers: Answers
    notes: tuple[str, ...]
    seconds: float

    def rows(self, columns: Iterator[Cells] | None = None) -> list[Cells]:
        """A row for each example: columns of its file, else its own texts, then the answer."""
        rows = []
        for read, predicted in zip(self.examples, self.each(), strict=True):
            cells = _texts(self.task, read) if columns is None else next(columns)
            named = ((n, n.split(".")[0] in predicted, cell) for n, cell in cells.items())
            row = {f"{n}_in_file" if taken else n: cell for n, taken, cell in named}
            rows.append({**row, "id": read.key, **predicted})
        return rows

    def each(self) -> Iterator[dict[str, Any]]:
        """The answer to each row, with probabilities and other details."""
        return map(self._said, range(len(self.examples)))

    def _said(self, number: int) -> dict[str, Any]:
        prediction, kind, likely = self.answers.given[number], self.task.answer, list[float]()
        if self.answers.probabilities:
            likely = [round(value, 6) for value in self.answers.probabilities[number]]
        match kind:
            case kinds.Labels() | kinds.Several():
                parts = dict(zip(kind.names, likely, strict=True))
                key = "labels" if isinstance(kind, kinds.Several) else "label"
                return {key: prediction, "probabilities": parts}
            case kinds.Score(names=names) if isinstance(prediction, tuple):
                return {"scores": dict(zip(names, prediction, strict=True))}
            case kinds.Score():
                return {"score": prediction}
            case kinds.Choice():
                read = self.examples[number]
                assert isinstance(read, example.ChoiceExample), "examples of a task are of one kind"
                return {"choice": prediction, "probabilities": likely[: len(read.choices)]}
            case kinds.Tags():
                if isinstance(self.task, Tag) and self.task.letters:
                    assert isinstance(prediction, tuple), "a tag for each letter"
                    prediction = "".join(map(str, prediction))
                return {"tags": prediction, "probabilities": likely}
            case kinds.NamedSpans():
                return {"spans": [*self._named(number)]}
            case kinds.Span():
                decoded = self.answers.spans[number]
                best = [candidate._asdict() for candidate in decoded.best]
                return {"answer": prediction, "null_odds": decoded.odds, "best": best}
            case kinds.Vector():
                return {"similarity": round(self.answers.similarities[number], 6)}

    def _named(self, number: int) -> Iterator[dict[str, Any]]:
        """The spans of a row in order; of one that is text also by characters."""
        read, tags = self.examples[number], self.answers.given[number]
        assert isinstance(read, example.TaggedExample), "spans are of words"
        assert isinstance(tags, tuple), "a tag for each word"
        places = [match.span() for match in PART.finditer(read.text)]
        for name, first, last, likely in sorted(self.answers.named[number], key=lambda s: s.first):
            if tags[first] == f"B-{name}":
                text, where = " ".join(read.words[first : last + 1]), {"first": first, "last": last}
                if places:
                    where = {"start": places[first][0], "end": places[last][1]}
                    text = read.text[slice(*where.values())]
                yield {"text": text, "label": name, **where, "probability": round(likely, 6)}


ROWS_OF_A_PART = 8192
"""Rows of a file that are held and answered at once."""


def predict_parts(
    run: Path, file: Path, task: str = "", device: str = "auto", labels: str | None = None,
    precision: RunPrecision | None = None,
) -> Iterator[Predicted]:  # fmt: skip
    """Answer the rows of a file in its order, ``ROWS_OF_A_PART`` at once.

    ``labels`` are names of spans to find, with commas between.
    """
    model = load(run)
    stage, chosen = task_of(model.resolved, task)
    if labels is not None:
        chosen = asking(chosen, labels)
    examples = examples_of(of_any_number(chosen), DataPart(file, labelled=False))
    vocabulary = vocabulary_of(run, stage.encoder.vocab_size)
    place_on_device(model, device, precision)
    fit = fit_of_head(run, model, chosen.title)
    with closing(choose(quiet=False)) as display:
        while True:
            with columns_told(chosen):
                part = [*islice(examples, ROWS_OF_A_PART)]
            if not part:
                return
            yield answer_examples(model, stage, chosen, part, vocabulary, display, fit)


def write_answers(
    parts: Iterator[Predicted], file: Path, out: Path | None, say: Callable[[str], None]
) -> str:
    """Write answers to a file, or say them line by line; the summary of all."""
    columns: Iterator[Cells] | None = None
    count, seconds, notes, title = 0, 0.0, list[str](), ""

    def rows() -> Iterator[list[Cells]]:
        nonlocal columns, count, seconds, title
        for part in parts:
            columns = columns if count else columns_of(part.task, file)
            first, title = count + 1, part.task.title
            count, seconds = count + len(part.examples), seconds + part.seconds
            where = f"rows {first:,} to {count:,}: " if first > 1 or notes else ""
            notes.extend(where + note for note in part.notes)
            yield part.rows(columns)

    if out is None:
        for line in answer_lines(rows()):
            say(line)
    else:
        write_answer_file(out, rows())
    speed = f", {count / seconds:,.0f} a second" if seconds else ""
    return "\n".join([f"{title}: {several(count, 'row')} in {seconds:.1f} s{speed}", *notes])


def answer_examples(
    model: Model,
    stage: Stage,
    task: AnyTask,
    examples: list[example.Example],
    vocabulary: Vocabulary,
    progress: Progress | None = None,
    fit: HeadFit = NO_FIT,
) -> Predicted:
    """Answer examples in memory, of a task that the stage has learned."""
    task = of_any_number(task, examples)
    if isinstance(task, Spans):  # whose labels are asked for, whatever the rows have
        examples = [replace(e, tags=()) for e in examples if isinstance(e, example.TaggedExample)]
    kinds_read = stage.encoder.kinds_of_segments, stage.encoder.causal
    rows = encode(task, examples, vocabulary, stage.seq, *kinds_read)
    started, progress = time.perf_counter(), progress or Silent()
    task_set, pad = TaskSet(task, rows, {}), vocabulary.pad
    doing = f"answering {several(len(examples), 'row')} of {task.title}"
    progress.begin(doing, len(rows.owners), "rows")
    answers = answer(model, stage, task_set, examples, rows, pad, progress=progress, fit=fit)
    progress.end()
    cuts = " and thresholds" * bool(fit.thresholds)
    how = f"by the temperature{cuts} that bertc eval fitted on dev"
    if fit == NO_FIT:
        untuned = isinstance(task.answer, kinds.Several | kinds.NamedSpans)
        how = "by thresholds of 0.5: bertc eval RUN fits them on dev" * untuned
    notes = (*filter(None, [how]), *notes_on_cuts(task, rows, len(examples), "", stage.seq))
    return Predicted(task, examples, answers, notes, time.perf_counter() - started)


def asking(task: AnyTask, labels: str) -> AnyTask:
    """The task with these names of spans, with commas between."""
    if not isinstance(task, Spans):
        message = f"--labels are names of spans, and {task.title} is a task of {task.answer.kind}"
        raise UsageError(message, help="leave it out: its answers are those that it learned")
    names = tuple(dict.fromkeys(map(str.strip, labels.split(","))))
    if "" in names:
        message = f'--labels "{labels}" has an empty name'
        raise UsageError(message, help='names with commas between: --labels "person, drug"')
    return task.model_copy(update={"labels": names})


def of_any_number(task: AnyTask, examples: example.Examples = ()) -> AnyTask:
    """A task whose examples may have any number of choices, or as many as these have.

    Each choice is scored by itself: training fixes no number, and an imported head states none.
    """
    if not isinstance(task, Choose):
        return task.judged
    numbers = [len(e.choices) for e in examples if isinstance(e, example.ChoiceExample)]
    return task.model_copy(update={"most": max(numbers, default=kinds.MOST_CHOICES)})
