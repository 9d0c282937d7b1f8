"""Texts to embed, passages to rank by columns, and searches in the files of BEIR."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import DataError, MissingInputError, several
from bertc.base.storage.files import suffix
from bertc.base.storage.paths import check_path, is_taken, user_path
from bertc.ir.learning import Choice, Embed, Glue, Rerank
from bertc.tasks.layouts import table
from bertc.tasks.layouts.example import ChoiceExample, Example, SearchExample, TextExample
from bertc.tasks.layouts.official import read_glue
from bertc.text.sources.cells import NO_ANSWER, label, number, text, texts
from bertc.text.sources.source import lines, opened_stream
from bertc.text.sources.tables import ColumnSelection, column_index

_KEYS = ("_id", "id")
RELEVANT = ("query-id", "corpus-id", "score")
"""Columns of the file of relevant documents; the first two alone mean a score of 1."""
LINES = ".txt"
"""The ending of files with a text a line to embed."""


def read_search(task: Embed) -> list[SearchExample]:
    """The queries that have relevant documents, then the documents."""
    names = (task.corpus, task.queries, task.relevant)
    if missing := [name for name in names if not is_taken(user_path(name))]:
        raise MissingInputError(f"not there: {', '.join(missing)}", check_path(missing[0]))
    documents, queries = _texts(task.corpus), _texts(task.queries)
    relevant: dict[str, dict[str, float]] = {}
    path = user_path(task.relevant)
    for place, cells in table.table(path, ColumnSelection(RELEVANT[:2], RELEVANT[2:])):
        query, document = (label(c, place, n) for c, n in zip(cells, RELEVANT[:2], strict=False))
        grade = 1.0 if cells[2] is None else number(cells[2], place, RELEVANT[2])
        if grade > 0 and document not in documents:
            raise DataError(
                f"{place}: the document {document[:60]!r} is not in {task.corpus}",
                f"a corpus with all relevant documents; its column {' or '.join(_KEYS)} names them",
            )
        if grade > 0 and query in queries:
            relevant.setdefault(query, {})[document] = grade
    if not relevant:
        raise DataError(
            f"{path}: no document is relevant to the {len(queries):,} queries of {task.queries}",
            "the column query-id names queries by their _id, and score is above 0",
        )
    asked = [SearchExample(key, queries[key], (*g.items(),)) for key, g in relevant.items()]
    return asked + [SearchExample(key, words, None) for key, words in documents.items()]


def _texts(file: str) -> dict[str, str]:
    """Texts of a corpus or of queries by their keys, a title before its text."""
    path, texts = user_path(file), dict[str, str]()
    names = table.names_of_columns(path)
    key = next((name for name in _KEYS if name in names), _KEYS[0])
    selection = ColumnSelection((key, "text"), ("title",))
    for place, (cell, words, title) in table.table(path, selection):
        parts = [text(title, place, "title")] if title else []
        if (name := label(cell, place, key)) in texts:
            help = "a separate one for every text: relevant documents are named by it"
            raise DataError(f"{place}: an earlier line has the {key} {name[:60]!r} too", help)
        texts[name] = " ".join([*parts, text(words, place, "text")])
    return texts


def related(task: Embed, part: table.DataPart) -> Iterator[Example]:
    """Texts with those that are like or unlike them, or a search."""
    source = part.source
    if part.search:
        yield from read_search(task)
        return
    if part.sts:
        yield from read_glue(Glue(task="stsb", data=str(source)), part)
        return
    if isinstance(source, Path) and suffix(source) == LINES:
        yield from _lines(task, source)
        return
    if not part.labelled and not task.positive:
        raise DataError(
            f"{table.source_name(source)}: a similarity is of two texts, and one column is named",
            f'--task "embed(text={task.text}, positive=COLUMN)", or `bertc embed` for vectors',
        )
    names = (task.text, task.positive, task.negative if part.labelled else "")
    columns = tuple(filter(None, names))
    hidden = () if part.labelled and task.score else NO_ANSWER
    for key, place, (*cells, cell) in table.rows_of(part, columns, (task.score,)):
        texts = read_texts(cells[:2], columns[:2], place)
        texts += tuple(chain(*(_negatives(task, c, texts[-1], place) for c in cells[2:])))
        answer = None if cell in hidden else _scores_in(task, cell, len(texts), place)
        yield TextExample(key, texts, answer)


def read_ranked(task: Rerank, part: table.DataPart) -> Iterator[Example]:
    """Lists of a positive and negatives, or pairs if the file has their label."""
    names = [task.passage] if not task.positive else [task.positive]
    if isinstance(part.source, Path) and table.is_table(part.source):
        names = table.names_of_columns(part.source)
    listed = isinstance(task.answer, Choice) or column_index(task.label, names) < 0
    has_positive = column_index(task.positive, names) >= 0
    if part.labelled and has_positive and listed:
        columns = tuple(filter(None, (task.text, task.positive, task.negative)))
        for key, place, cells in table.rows_of(part, columns, ()):
            query, positive = read_texts(cells[:2], columns[:2], place)
            negatives = chain(*(_negatives(task, cell, positive, place) for cell in cells[2:]))
            yield ChoiceExample(key, "", query, (positive, *negatives), 0)
        return
    passage = task.positive if has_positive else task.passage
    columns, hidden = (task.text, passage), () if part.labelled else NO_ANSWER
    for key, place, cells in table.rows_of(part, columns, (task.label,)):
        grade = None if cells[2] in hidden else number(cells[2], place, task.label, (0, 1))
        yield TextExample(key, read_texts(cells[:2], columns, place), grade)


def _negatives(task: Embed | Rerank, cell: Any, positive: str, place: str) -> tuple[str, ...]:
    """The negatives in a cell, a text or the first ones of a list."""
    number = task.negatives.number
    negatives = texts(cell, place, task.negative) if isinstance(cell, list) else ()
    negatives = negatives or read_texts([cell], [task.negative], place)
    if len(negatives) < number:
        help = f"negatives=column({len(negatives)}), or a longer list in {task.negative!r}"
        raise DataError(f"{place}: {several(len(negatives), 'negative')}, {number} expected", help)
    if positive in negatives[:number]:
        message = f"{place}: a negative is the positive itself, {positive[:60]!r}"
        raise DataError(message, "leave it out: what is pulled near cannot be pushed away")
    return negatives[:number]


def _scores_in(task: Embed, cell: Any, texts: int, place: str) -> float | tuple[float, ...]:
    """The score of a pair, or the scores of all texts but the first, of which a lead is two."""
    if task.loss == "order":
        return number(cell, place, task.score)
    if not isinstance(cell, list) and task.loss == "margin" and texts == 3:
        return number(cell, place, task.score), 0.0
    scores = cell if isinstance(cell, list) else [cell]
    if len(scores) != texts - 1:
        raise DataError(
            f"{place}: {several(len(scores), 'score')} in {task.score!r}, and "
            f"{several(texts - 1, 'text')} to score",
            "a list of scores: the positive's, then those of the negatives",
        )
    return tuple(number(score, place, task.score) for score in scores)


def _lines(task: Embed, path: Path) -> Iterator[TextExample]:
    for name in ("negative", "score"):
        if column := getattr(task, name):
            message = f"{path}: a .txt file has one text a line, and {name}={column} is a column"
            raise DataError(message, f"a table, or leave {name} out; sts=FILE has its own scores")
    with opened_stream(path) as file:
        for number, line in lines(file):
            if line.strip():
                yield TextExample(str(number - 1), (line,), None)


def read_texts(cells: Sequence[Any], columns: Sequence[str], place: str) -> tuple[str, ...]:
    """The texts in some cells of a row."""
    return tuple(text(cell, place, name) for cell, name in zip(cells, columns, strict=True))
