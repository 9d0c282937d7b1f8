"""The files of XNLI: one for each language, or the official ones."""

import re
from collections.abc import Iterator
from pathlib import Path

from bertc.data.layouts.example import LabelledExample
from bertc.data.layouts.find import DataPart, DataParts, files_of, first, packed
from bertc.data.layouts.glue import WITHHELD
from bertc.data.layouts.table import table
from bertc.data.sources.cells import known_label, label, text
from bertc.data.sources.tables import ColumnSelection, TableRow
from bertc.ir.learning.task import GLUE_LABELS, Xnli

XNLI_LABELS = GLUE_LABELS["mnli"]

_COLUMNS = ("premise", "hypothesis", "label")
_SPELLINGS = {
    "sentence1": "premise", "sentence2": "hypothesis", "gold_label": "label",  # xnli.dev.tsv
    "hypo": "hypothesis",  # multinli.train.de.tsv
}  # fmt: skip


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


def read_xnli(path: Path, language: str, labelled: bool) -> list[LabelledExample]:
    """Read the examples of a file, or of its rows in one language.

    With ``labelled`` each must have its label; rows without an agreed one, ``-``, are skipped.
    """
    examples = []
    for i, (place, (*texts, cell)) in enumerate(_rows(path, language, labelled)):
        name = label(cell, place, "label")
        if labelled and name == "-":
            continue
        pair = tuple(
            text(cell_text, place, column)
            for cell_text, column in zip(texts, _COLUMNS[:2], strict=True)
        )
        if not labelled and name in WITHHELD:
            examples.append(LabelledExample(str(i), pair, None))
            continue
        name = "contradiction" if name == "contradictory" else name
        examples.append(LabelledExample(str(i), pair, known_label(name, XNLI_LABELS, place)))
    return examples


def _rows(path: Path, language: str, labelled: bool) -> Iterator[TableRow]:
    texts, label_column = _COLUMNS[:2], _COLUMNS[2:]
    required, optional = (_COLUMNS, ()) if labelled else (texts, label_column)
    unnamed = (_COLUMNS,) if labelled else (_COLUMNS, texts)
    if language:
        required = ("language", *required)
    for place, cells in table(path, ColumnSelection(required, optional, unnamed, _SPELLINGS)):
        if not language:
            yield TableRow(place, cells)
        elif cells[0] == language:
            yield TableRow(place, cells[1:])
