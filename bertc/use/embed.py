"""``bertc embed``: vectors of the texts of files, written, or compared with that of one text."""

import glob
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from bertc.base.diagnostics import DataError, MissingColumnError, MissingInputError, UsageError
from bertc.base.storage import durable
from bertc.base.storage.paths import is_file, is_folder, user_path
from bertc.hub.sentences import vectors_of
from bertc.ir.learning import TextKind
from bertc.ir.program.settings import RunPrecision
from bertc.machine.display import choose
from bertc.run.models.loading import load, place_on_device
from bertc.run.models.vectors import Embedded, embed, likeness
from bertc.tasks.layouts.related import read_texts
from bertc.tasks.layouts.table import DataPart, rows_of
from bertc.text.sources.files import has_columns, matching_files
from bertc.text.sources.sequences import has_sequences
from bertc.text.sources.source import lines, opened_stream
from bertc.use.answer_files import AnswerRow


class PlacedText(NamedTuple):
    """A text and its place: file and line."""

    place: str
    text: str


def embed_file(
    run: Path,
    file: Path,
    pooling: str = "",
    *,
    column: str = "",
    near: str = "",
    top: int = 5,
    normalise: bool | None = None,
    prompt: str = "",
    width: int = 0,
    to: Path | None = None,
    device: str = "auto",
    precision: RunPrecision = "fp32",
) -> tuple[list[PlacedText], Embedded, list[AnswerRow]]:
    """Rows of a file, or of those that a pattern matches; their vectors; the nearest to ``near``.

    A row is a line, or one of a table, whose texts are in ``column``. It is read as a document,
    unless there is a ``prompt``, and ``near`` as a query; the ``top`` nearest have scores. Vectors
    will be written to ``to``.
    """
    if is_folder(user_path(file)):
        raise MissingInputError(f"{file} is a folder", help=f'a pattern: "{file}/**/*.md"')
    name = glob.escape(str(file)) if is_file(user_path(file)) else str(file)
    paths = (path for path in matching_files(name) if isinstance(path, Path))  # none in a store
    rows = [row for path in paths for row in _rows(path, column)]
    if not rows:
        raise DataError(f"{file} has no texts", help="one text a line, or a table")
    model = load(run)
    ways = vectors_of(run, model.resolved)
    if to and to.suffix == ".npy" and not pooling and ways and ways.is_sparse:
        message = f"{to}: sparse vectors are indices and weights, and .npy has one array"
        raise UsageError(message, help=f"-o {to.with_suffix('.parquet')}")
    place_on_device(model, device, precision)
    embedding = partial(embed, model, run, pooling=pooling, normalise=normalise, width=width)
    with closing(choose(quiet=False)) as display:
        kind: TextKind | None = "document" if near and not prompt else None
        texts = [row.text for row in rows]
        embedded = embedding(texts, prompt=prompt, kind=kind, progress=display)
    if not near:
        return rows, embedded, []
    ((scores_n,),) = likeness(model, run, embedding([near], kind="query"), embedded)
    best = scores_n.argsort(descending=True, stable=True).tolist()
    scored = ({"score": round(float(scores_n[number]), 6), **rows[number]._asdict()}
              for number in best if texts[number].strip())  # fmt: skip
    return rows, embedded, [*islice(scored, top)]


def _rows(path: Path, column: str) -> Iterator[PlacedText]:
    """The rows of a file with columns, or where none is named the lines of any other."""
    if not column and not has_columns(path):
        with opened_stream(path) as stream:
            yield from (PlacedText(f"{path}:{number}", line) for number, line in lines(stream))
        return
    columns = (column or ("sequence" if has_sequences(path) else "text"),)
    try:
        for _, place, cells in rows_of(DataPart(path), columns, ()):
            yield PlacedText(place, *read_texts(cells, columns, place))
    except MissingColumnError as error:
        help = f"--text COLUMN names the column of the text: {error.help}"
        raise DataError(error.message, help) from None


def refuse_other_files(to: Path) -> None:
    """Refuse a file of another kind, or in no folder, before vectors are made."""
    if to.suffix not in (".npy", ".parquet"):
        raise UsageError(f"{to}: vectors are written as .npy or .parquet", help="-o vectors.npy")
    if not is_folder(to.absolute().parent):
        raise UsageError(f"there is no folder {to.parent}", help="-o in one that is there")


def write_vectors(texts: Sequence[str], embedded: Embedded, to: Path) -> None:
    """Write vectors to a ``.npy`` file, or with their texts to a ``.parquet`` file.

    Of sparse ones it has ``indices``, the ids of tokens in rising order, and their ``weights``.
    """
    stream, vectors = BytesIO(), embedded.of_texts
    if to.suffix == ".npy":
        np.save(stream, embedded.vectors)
    else:
        import pyarrow as pa
        from pyarrow.parquet import write_table

        columns, is_sparse = {"text": pa.array(texts, pa.string())}, vectors[0].is_sparse
        sizes = [vector._nnz() if is_sparse else len(vector) for vector in vectors]
        begins = pa.array(np.cumsum([0, *sizes], dtype=np.int32))
        if is_sparse:
            ids = torch.cat([vector.indices()[0].int() for vector in vectors])
            weights = torch.cat([vector.values() for vector in vectors])
            for name, numbers in (("indices", ids), ("weights", weights)):
                columns[name] = pa.ListArray.from_arrays(begins, pa.array(numbers.numpy()))
        else:
            numbers = torch.cat([*vectors]).flatten()
            lists = pa.FixedSizeListArray.from_arrays(pa.array(numbers.numpy()), embedded.width)
            by_token = vectors[0].dim() == 2
            columns["vector"] = pa.ListArray.from_arrays(begins, lists) if by_token else lists
        write_table(pa.table(columns), stream)
    durable.replace(to, stream.getvalue())
