"""Files of answers, .jsonl, .csv, .tsv or .parquet, written while rows are answered."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import UsageError, as_data_error
from bertc.base.storage import durable
from bertc.base.storage.paths import is_taken

AnswerRow = dict[str, Any]
ENDINGS = (".jsonl", ".csv", ".tsv", ".parquet")


def check_out(out: Path) -> None:
    """Refuse a file that is there already, or of another format."""
    if out.suffix not in ENDINGS:
        raise UsageError(f"{out}: unknown format {out.suffix!r}", f"-o with {' or '.join(ENDINGS)}")
    if is_taken(out):
        raise UsageError(f"{out} is there already", help="-o with another name, or remove it")


def write_answer_file(out: Path, parts: Iterable[list[AnswerRow]]) -> None:
    """Write rows in their order; the file is there only when all of them are."""
    check_out(out)
    with durable.write_aside(out, 0, elsewhere="-o in another folder") as aside:
        if out.suffix == ".parquet":
            _parquet(aside, parts)
        else:
            with open(aside, "w", encoding="utf-8", newline="") as file:
                if out.suffix == ".jsonl":
                    file.writelines(f"{line}\n" for line in answer_lines(parts))
                elif out.suffix == ".csv":
                    _table(csv.writer(file).writerow, parts)
                else:  # without quotes, which have no meaning where it is read
                    plain = partial(re.sub, r"[\t\r\n]+", " ")
                    _table(lambda row: file.write("\t".join(map(plain, row)) + "\n"), parts)
        durable.sync(aside)


def answer_lines(parts: Iterable[list[AnswerRow]]) -> Iterator[str]:
    """A JSON object per row."""
    return (json.dumps(row, ensure_ascii=False) for row in chain.from_iterable(parts))


def _table(write: Callable[[list[str]], Any], parts: Iterable[list[AnswerRow]]) -> None:
    """Columns of the first row; parts of an object have dotted names, lists are JSON."""
    names: list[str] = []
    for row in chain.from_iterable(parts):
        cells = dict(_flat(row))
        if not names:
            names = [*cells]
            write(names)
        write([cells.get(name, "") for name in names])


def _flat(row: AnswerRow, above: str = "") -> Iterator[tuple[str, str]]:
    for name, cell in row.items():
        if isinstance(cell, dict):
            yield from _flat(cell, f"{above}{name}.")
        else:
            listed = isinstance(cell, list | tuple)
            text = json.dumps(cell, ensure_ascii=False) if listed else str(cell)
            yield above + name, "" if cell is None else text


def _parquet(path: Path, parts: Iterable[list[AnswerRow]]) -> None:
    """Columns of the types that the first rows have; those without a value there are texts."""
    import pyarrow
    from pyarrow import parquet

    failed = f"{path}: columns of rows have different types", "-o with the ending .jsonl"
    writer: Any = None
    try:
        for rows in parts:
            with as_data_error(*failed):
                if writer is None:
                    schema = pyarrow.Table.from_pylist(rows).schema
                    for number, field in enumerate(schema):
                        if pyarrow.types.is_null(field.type):
                            schema = schema.set(number, field.with_type(pyarrow.string()))
                    writer = parquet.ParquetWriter(path, schema)
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=writer.schema))
    finally:
        if writer is not None:
            writer.close()
