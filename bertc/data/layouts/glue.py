"""The files of GLUE, with the columns of each task."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import DataError
from bertc.base.storage.endings import suffix
from bertc.data.layouts.documents import member, read_document
from bertc.data.layouts.example import LabelledExample, ScoredExample
from bertc.data.layouts.find import DataPart, DataParts, files_of, first
from bertc.data.layouts.table import table
from bertc.data.sources.cells import known_label, label, number, text
from bertc.data.sources.tables import ColumnNames, ColumnSelection
from bertc.ir.learning.task import GLUE_LABELS, Glue

SCORES = (0.0, 5.0)
WITHHELD = ("", "-", "hidden", "-1")
"""Values in place of a label that is withheld."""

_PAIR = ("sentence1", "sentence2")
_NLI = ("index", *_PAIR, "label")
_MNLI = (
    *("index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse"),
    *("sentence1_parse", "sentence2_parse", *_PAIR, "label1", "gold_label"),
)
_STSB = ("index", "genre", "filename", "year", "old_index", "source1", "source2", *_PAIR, "score")

TASK_COLUMNS: dict[str, tuple[ColumnNames, ColumnNames, str]] = {
    "cola": (("source", "label", "mark", "sentence"), ("sentence",), "label"),
    "sst2": (("sentence", "label"), ("sentence",), "label"),
    "mrpc": (
        ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),
        ("#1 String", "#2 String"),
        "Quality",
    ),
    "stsb": (_STSB, _PAIR, "score"),
    "qqp": (
        ("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
        ("question1", "question2"),
        "is_duplicate",
    ),
    "mnli": (_MNLI, _PAIR, "gold_label"),
    "qnli": (("index", "question", "sentence", "label"), ("question", "sentence"), "label"),
    "rte": (_NLI, _PAIR, "label"),
    "wnli": (_NLI, _PAIR, "label"),
    "ax": (_NLI, _PAIR, "label"),
}
"""All columns of a training file, those of the texts, and that of the label."""

_NUMBERED_NLI = {"0": "entailment", "1": "neutral", "2": "contradiction"}
OTHER_NAMES: dict[str, dict[str, str]] = {
    "cola": {"unacceptable": "0", "acceptable": "1"},
    "sst2": {"negative": "0", "positive": "1"},
    "mrpc": {"not_equivalent": "0", "equivalent": "1"},
    "qqp": {"not_duplicate": "0", "duplicate": "1"},
    "wnli": {"not_entailment": "0", "entailment": "1"},
    "qnli": {"0": "entailment", "1": "not_entailment"},
    "rte": {"0": "entailment", "1": "not_entailment"},
    "mnli": _NUMBERED_NLI,
    "ax": _NUMBERED_NLI,
}
"""Official labels by the names and numbers in the ``datasets`` library."""

_AX = {"Premise": "sentence1", "Hypothesis": "sentence2", "Label": "label"}


def glue_parts(task: Glue) -> DataParts:
    """The official files, compressed or not, and csv files of STS-B in other languages."""
    files = files_of(task.data)
    names = ["train", "dev", "test"]
    if task.task == "mnli":
        names = ["train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched"]
    parts: DataParts = {}
    for name in names:
        stems = [f"{name}.tsv", f"{name}.glue.tsv", f"{name}.subset.json"]
        if task.task == "stsb":
            stems += [f"{name}.csv", f"stsb-en-{name}.csv"]
        if task.task == "ax":
            stems = {"dev": ["diagnostic-full.tsv"], "test": ["diagnostic.tsv"]}.get(name, [])
        if path := first(files, stems):
            parts[name] = DataPart(path)
    return parts


def read_glue(task: Glue, path: Path, labelled: bool) -> list[LabelledExample | ScoredExample]:
    """Read the examples of a file; with ``labelled`` each must have its label.

    Then rows of MNLI and SNLI without an agreed label, ``-``, are skipped.
    """
    rows = _subset(task, path) if suffix(path) == ".json" else _rows(task, path, labelled)
    examples: list[LabelledExample | ScoredExample] = []
    for i, (place, texts, cell) in enumerate(rows):
        if task.task == "stsb":
            examples.append(ScoredExample(str(i), texts, _score(cell, place, labelled)))
        elif not (labelled and cell == "-" and task.task in ("mnli", "ax")):
            examples.append(LabelledExample(str(i), texts, _label(task, cell, place, labelled)))
    return examples


def _rows(task: Glue, path: Path, labelled: bool) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    all_columns, texts, label_column = TASK_COLUMNS[task.task]
    if suffix(path) == ".csv":
        all_columns = (*_PAIR, "score")
    selection = ColumnSelection(
        required=(*texts, label_column) if labelled else texts,
        optional=() if labelled else (label_column,),
        unnamed=(all_columns,),
        spellings=_AX if task.task == "ax" else {},
        short=task.task == "qqp",  # the official train.tsv breaks a few rows
    )
    for place, cells in table(path, selection):
        yield place, cells[:-1], cells[-1]


def _subset(task: Glue, path: Path) -> Iterator[tuple[str, tuple[str, ...], Any]]:
    """Rows of a JSON object of examples {text_a, text_b, label} by number."""
    rows = read_document(path)
    if not isinstance(rows, dict):
        raise DataError(f"{path}: not a JSON object", '{"0": {"text_a": ..., "label": ...}, ...}')
    for key, row in rows.items():
        place = f"{path}: {key}"
        names = ("text_a", "text_b")[: len(TASK_COLUMNS[task.task][1])]
        texts = tuple(text(member(row, name, str, place), place, name) for name in names)
        yield place, texts, row.get("label")


def _score(cell: Any, place: str, labelled: bool) -> float | None:
    if not labelled and (cell is None or cell in WITHHELD):
        return None
    return number(cell, place, "score", SCORES)


def _label(task: Glue, cell: Any, place: str, labelled: bool) -> str | None:
    name = label(cell, place, TASK_COLUMNS[task.task][2])
    if not labelled and name in WITHHELD:
        return None
    return known_label(OTHER_NAMES[task.task].get(name, name), GLUE_LABELS[task.task], place)
