"""A search in the files of BEIR: a corpus, queries, and the documents relevant to each."""

from bertc.base.diagnostics import DataError, MissingInputError
from bertc.base.storage.paths import check_path, is_taken, user_path
from bertc.data.layouts.example import SearchExample
from bertc.data.layouts.table import names_of_columns, table
from bertc.data.sources.cells import label, number, text
from bertc.data.sources.tables import ColumnSelection
from bertc.ir.learning.vector_task import Embed

_KEYS = ("_id", "id")
RELEVANT = ("query-id", "corpus-id", "score")
"""Columns of the file of relevant documents; the first two alone mean a score of 1."""


def read_search(task: Embed) -> list[SearchExample]:
    """The queries that have relevant documents, then the documents."""
    names = (task.corpus, task.queries, task.relevant)
    if missing := [name for name in names if not is_taken(user_path(name))]:
        raise MissingInputError(f"not there: {', '.join(missing)}", check_path(missing[0]))
    documents, queries = _texts(task.corpus), _texts(task.queries)
    relevant: dict[str, dict[str, float]] = {}
    path = user_path(task.relevant)
    for place, cells in table(path, ColumnSelection(RELEVANT[:2], RELEVANT[2:])):
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
    asked = [SearchExample(key, queries[key], (*of.items(),)) for key, of in relevant.items()]
    return asked + [SearchExample(key, words, None) for key, words in documents.items()]


def _texts(file: str) -> dict[str, str]:
    """Texts of a corpus or of queries by their keys, a title before its text."""
    path, texts = user_path(file), dict[str, str]()
    names = names_of_columns(path)
    key = next((name for name in _KEYS if name in names), _KEYS[0])
    for place, (of, words, title) in table(path, ColumnSelection((key, "text"), ("title",))):
        parts = [text(title, place, "title")] if title else []
        if (name := label(of, place, key)) in texts:
            raise DataError(
                f"{place}: an earlier line has the {key} {name[:60]!r} too",
                "a separate one for every text: relevant documents are named by it",
            )
        texts[name] = " ".join([*parts, text(words, place, "text")])
    return texts
