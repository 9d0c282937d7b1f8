"""The files of GLUE and XNLI, with the columns of each task."""

import re
from collections.abc import Iterable

from bertc.base.storage.paths import suffix
from bertc.ir.learning.task import GLUE_LABELS, Glue, Xnli
from bertc.tasks.layouts.example import TextExample
from bertc.tasks.layouts.find import DataPart, DataParts, files_of, first, packed
from bertc.tasks.layouts.table import table
from bertc.text.sources.cells import label_in, number, text
from bertc.text.sources.tables import ColumnNames, ColumnSelection, TableRow

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

_AX = {"Premise": "sentence1", "Hypothesis": "sentence2", "Label": "label"}
_XNLI = ("premise", "hypothesis", "label")
_XNLI_SPELLINGS = {
    "sentence1": "premise", "sentence2": "hypothesis", "gold_label": "label",  # xnli.dev.tsv
    "hypo": "hypothesis",  # multinli.train.de.tsv
}  # fmt: skip


def glue_parts(task: Glue) -> DataParts:
    """The official files, compressed or not, and csv files of STS-B in other languages."""
    files = files_of(task.data)
    parts: tuple[str, ...] = ("train", "dev", "test")
    if task.task == "mnli":
        parts = ("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")
    endings = (".tsv", ".csv") if task.task == "stsb" else (".tsv",)
    names = {name: [name + ending for ending in endings] for name in parts}
    if task.task == "ax":
        names = {"dev": ["diagnostic-full.tsv"], "test": ["diagnostic.tsv"]}
    there = ((name, first(files, stems)) for name, stems in names.items())
    return {name: DataPart(path) for name, path in there if path}


def read_glue(task: Glue, part: DataPart) -> list[TextExample]:
    """Read the examples of a file."""
    all_columns, texts, label_column = TASK_COLUMNS[task.task]
    if suffix(part.file) == ".csv":
        all_columns = (*_PAIR, "score")
    selection = ColumnSelection(
        required=(*texts, label_column) if part.labelled else texts,
        optional=() if part.labelled else (label_column,),
        unnamed=(all_columns,),
        spellings=_AX if task.task == "ax" else {},
        short=task.task == "qqp",  # the official train.tsv breaks a few rows
    )
    rows = table(part.file, selection)
    if task.task != "stsb":
        return _with_labels(rows, (*texts, label_column), GLUE_LABELS[task.task], part)
    hidden = () if part.labelled else (None, *WITHHELD)
    examples = []
    for i, (place, (*pair, cell)) in enumerate(rows):
        score = None if cell in hidden else number(cell, place, label_column, SCORES)
        examples.append(TextExample(str(i), tuple(pair), score))
    return examples


def xnli_parts(task: Xnli) -> DataParts:
    """Files such as ``dev-de.tsv``, or ``xnli.dev.tsv`` with all languages."""
    files = files_of(task.data)
    language = task.language
    train = first(files, (f"train-{language}.tsv", f"multinli.train.{language}.tsv"))
    parts: DataParts = {"train": DataPart(train)} if train else {}
    for part in ("dev", "test"):
        for name, path in files.items():
            if match := re.match(packed(rf"{part}-([A-Za-z]+)\.tsv"), name):
                parts[f"{part}-{match[1]}"] = DataPart(path)
        if official := first(files, (f"xnli.{part}.tsv",)):
            rows = table(official, ColumnSelection(("language",)))
            for of_rows in sorted({str(cells[0]) for _, cells in rows}):
                parts.setdefault(f"{part}-{of_rows}", DataPart(official, of_rows))
    dev_part = f"dev-{language}"
    if not train and dev_part in parts:
        parts["train"] = parts.pop(dev_part)
    return parts


def read_xnli(_: Xnli, part: DataPart) -> list[TextExample]:
    """Read the examples of a file, or of its rows in one language."""
    required, optional = (_XNLI, ()) if part.labelled else (_XNLI[:2], _XNLI[2:])
    unnamed = (_XNLI,) if part.labelled else (_XNLI, _XNLI[:2])
    if language := part.language:
        required = ("language", *required)
    rows = table(part.file, ColumnSelection(required, optional, unnamed, _XNLI_SPELLINGS))
    if language:
        rows = (row._replace(cells=row.cells[1:]) for row in rows if row.cells[0] == language)
    return _with_labels(rows, _XNLI, GLUE_LABELS["mnli"], part)


def _with_labels(
    rows: Iterable[TableRow], columns: ColumnNames, labels: ColumnNames, part: DataPart
) -> list[TextExample]:
    """The examples of rows of ``columns``, the label last; to learn from without ``-``."""
    examples = []
    disputed = part.labelled and labels == GLUE_LABELS["mnli"]
    for i, (place, (*cells, cell)) in enumerate(rows):
        if disputed and cell == "-":
            continue
        cell = "contradiction" if cell == "contradictory" else cell  # multinli.train.de.tsv
        texts = tuple(text(c, place, name) for c, name in zip(cells, columns[:-1], strict=True))
        name = label_in(cell, place, columns[-1], labels, () if part.labelled else WITHHELD)
        examples.append(TextExample(str(i), texts, name))
    return examples
