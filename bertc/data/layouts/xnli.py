"""The files of XNLI: one a language, or the official ones."""

import re
from collections.abc import Iterator
from pathlib import Path

from bertc.data.layouts.example import Labelled
from bertc.data.layouts.find import Part, Parts, files_of, first, packed
from bertc.data.layouts.glue import UNKNOWN
from bertc.data.layouts.table import table
from bertc.data.sources.cells import known, label, text
from bertc.data.sources.tables import Row, Wanted
from bertc.ir.learning.task import GLUE_LABELS, Xnli

LABELS = GLUE_LABELS["mnli"]

_COLUMNS = ("premise", "hypothesis", "label")
_SPELLINGS = {
    "sentence1": "premise", "sentence2": "hypothesis", "gold_label": "label",  # xnli.dev.tsv
    "hypo": "hypothesis",  # multinli.train.de.tsv
}  # fmt: skip


def xnli_parts(task: Xnli) -> Parts:
    """Files such as ``dev-de.tsv``, or ``xnli.dev.tsv`` of all languages."""
    files = files_of(task.data)
    language = task.language
    train = first(files, (f"train-{language}.tsv", f"multinli.train.{language}.tsv"))
    parts: Parts = {"train": Part(train)} if train else {}
    for part in ("dev", "test"):
        for name, path in files.items():
            if found := re.match(packed(rf"{part}-([A-Za-z]+)\.tsv"), name):
                parts[f"{part}-{found[1]}"] = Part(path)
        if official := first(files, (f"xnli.{part}.tsv",)):
            rows = table(official, Wanted(("language",)))
            for other in sorted({str(cells[0]) for _, cells in rows}):
                parts.setdefault(f"{part}-{other}", Part(official, other))
    own = f"dev-{language}"
    if not train and own in parts:
        parts["train"] = parts.pop(own)
    return parts


def read_xnli(path: Path, language: str, labelled: bool) -> list[Labelled]:
    """The examples of a file, or of its rows in one language.

    ``labelled``: each has to have its label, but for rows that annotators did not agree on.
    """
    found = []
    for i, (place, (*texts, cell)) in enumerate(_rows(path, language, labelled)):
        name = label(cell, place, "label")
        if labelled and name == "-":
            continue
        both = tuple(
            text(one, place, column) for one, column in zip(texts, _COLUMNS[:2], strict=True)
        )
        if not labelled and name in UNKNOWN:
            found.append(Labelled(str(i), both, None))
            continue
        name = "contradiction" if name == "contradictory" else name
        found.append(Labelled(str(i), both, known(name, LABELS, place)))
    return found


def _rows(path: Path, language: str, labelled: bool) -> Iterator[Row]:
    texts, kept = _COLUMNS[:2], _COLUMNS[2:]
    required, optional = (_COLUMNS, ()) if labelled else (texts, kept)
    unnamed = (_COLUMNS,) if labelled else (_COLUMNS, texts)
    if language:
        required = ("language", *required)
    for place, cells in table(path, Wanted(required, optional, unnamed, _SPELLINGS)):
        if not language:
            yield Row(place, cells)
        elif cells[0] == language:
            yield Row(place, cells[1:])
