"""``bertc embed``: vectors of the lines of a file, written."""

from collections.abc import Sequence
from contextlib import closing
from io import BytesIO
from pathlib import Path

import numpy as np

from bertc.base.diagnostics import DataError, UsageError
from bertc.base.storage import durable
from bertc.base.storage.paths import is_folder
from bertc.data.sources.streams import lines, opened_stream
from bertc.ir.program.resolved import RunPrecision
from bertc.machine.display import choose
from bertc.run.models.loading import load, placed
from bertc.run.models.vectors import Embedded, embed


def embed_file(
    run: Path,
    file: Path,
    pooling: str = "",
    *,
    normalise: bool | None = None,
    prompt: str = "",
    width: int = 0,
    device: str = "auto",
    precision: RunPrecision = "fp32",
    quiet: bool = False,
) -> tuple[list[str], Embedded]:
    """Texts of a file, the lines, with their vectors."""
    with opened_stream(file) as stream:
        texts = [line for _, line in lines(stream)]
    if not texts:
        raise DataError(f"{file} has no lines", help="a text file with one text a line")
    model = load(run)
    placed(model, device, precision)
    with closing(choose(quiet)) as display:
        return texts, embed(
            model, run, texts, pooling, normalise=normalise, prompt=prompt, width=width,
            progress=display,
        )  # fmt: skip


def refuse_other_files(to: Path) -> None:
    """Refuse a file of another kind, or in no folder, before vectors are made."""
    if to.suffix not in (".npy", ".parquet"):
        raise UsageError(f"{to}: vectors are written as .npy or .parquet", help="-o vectors.npy")
    if not is_folder(to.absolute().parent):
        raise UsageError(f"there is no folder {to.parent}", help="-o in one that is there")


def write_vectors(texts: Sequence[str], embedded: Embedded, to: Path) -> None:
    """Write vectors to a ``.npy`` file, or with their texts to a ``.parquet`` file."""
    stream, vectors = BytesIO(), embedded.vectors
    if to.suffix == ".npy":
        np.save(stream, vectors)
    else:
        import pyarrow as pa
        from pyarrow.parquet import write_table

        width = vectors.shape[-1]
        there = vectors.any(-1) if vectors.ndim == 3 else np.ones(len(vectors), np.bool_)
        lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors[there].reshape(-1)), width)
        if vectors.ndim == 3:  # a list of the tokens that are there
            begins = np.cumsum([0, *there.sum(1)], dtype=np.int32)
            lists = pa.ListArray.from_arrays(pa.array(begins), lists)
        write_table(pa.table({"text": pa.array(texts, pa.string()), "vector": lists}), stream)
    durable.replace(to, stream.getvalue())
