"""MDS, the shards of mosaicml-streaming: an index, and samples with token ids in a column.

The layout is that of streaming/base/format/mds/writer.py and encodings.py, version 2.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import accumulate, pairwise
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import DataError, MissingInputError
from bertc.base.storage.foreign import as_data_error
from bertc.base.storage.json_file import parse_json
from bertc.base.storage.paths import AnyFile
from bertc.base.storage.remote import opened_anywhere, size_of
from bertc.data.sources.tokens import COPY_AGAIN, TokenDocument, TokenFile, files_of
from bertc.ir.data import Mds

INDEX_FILE = "index.json"
LARGEST_INDEX_BYTES = 1 << 30
COMPRESSIONS = {"zstd": "zstd", "gz": "gzip"}
"""Compressions of shards, each with its name in pyarrow."""
DTYPES = {
    8: "uint8", 9: "int8", 16: "uint16", 17: "int16",
    32: "uint32", 33: "int32", 64: "uint64", 65: "int64",
}  # fmt: skip
"""Integers by the byte that says them in samples (NDArray._int2value_dtype)."""


class Column(NamedTuple):
    """The column of ids: its number, the sizes of all, 0 for those that vary, and its encoding."""

    number: int
    sizes: tuple[int, ...]
    dtype: np.dtype[Any] | None
    shaped: bool


def mds_shards(corpus: Mds) -> list[TokenFile]:
    """The shards that the index of a folder names, or the indices of the folders below it."""
    files = files_of(corpus)
    paths = [path for name in sorted(files) if (path := PurePosixPath(name)).name == INDEX_FILE]
    folders = {path.parent for path in paths}
    if not folders:
        raise MissingInputError(
            f"there is no {INDEX_FILE} of MDS in {corpus.path}",
            "name the folder that mosaicml-streaming's MDSWriter wrote",
        )
    # The index of a folder may hold those of the folders below it (streaming's merge_index).
    first = [path for path in paths if folders.isdisjoint(path.parent.parents)]
    shards = [shard for path in first for shard in _in_index(path, files, corpus)]
    if not shards:
        raise DataError(f"{corpus.path} has no samples", COPY_AGAIN)
    return shards


def _in_index(path: PurePosixPath, files: Mapping[str, AnyFile], corpus: Mds) -> list[TokenFile]:
    file = files[str(path)]
    with opened_anywhere(file) as stream:
        content = stream.read(LARGEST_INDEX_BYTES + 1)
    with as_data_error(f"{file} is no index of MDS", COPY_AGAIN):
        shards = parse_json(content, LARGEST_INDEX_BYTES)["shards"]
        used = [shard for shard in shards if shard["samples"]]
        return [_shard(shard, path.parent, files, corpus) for shard in used]


def _shard(
    shard: dict[str, Any], folder: PurePosixPath, files: Mapping[str, AnyFile], corpus: Mds
) -> TokenFile:
    raw, packed = shard["raw_data"], shard["zip_data"]
    where = f"{corpus.path}/{folder / raw['basename']}"
    column = _column(shard, corpus, where)
    stored = [data for data in (raw, packed) if data and str(folder / data["basename"]) in files]
    if not stored:
        raise MissingInputError(f"{where} is not there, though its index names it", COPY_AGAIN)
    file, size = files[str(folder / stored[0]["basename"])], int(stored[0]["bytes"])
    if size_of(file) != size:
        raise DataError(f"{file} has {size_of(file):,} bytes, its index says {size:,}", COPY_AGAIN)
    compression = "" if stored[0] is raw else str(shard["compression"]).partition(":")[0]
    if compression and compression not in COMPRESSIONS:
        raise DataError(
            f"{file} is compressed by {compression}, {' or '.join(COMPRESSIONS)} expected",
            "unpack its shards",
        )
    count, raw_bytes = int(shard["samples"]), int(raw["bytes"])
    documents = partial(_documents, file, compression, count, raw_bytes, column)
    return TokenFile(file, raw_bytes, column.dtype, documents)


def _column(shard: dict[str, Any], corpus: Mds, where: str) -> Column:
    names, encodings = shard["column_names"], shard["column_encodings"]
    if corpus.column not in names:
        raise DataError(
            f"{where} has no column {corpus.column!r}; there are {', '.join(names)}",
            f'mds("{corpus.path}", column=...) names that of the ids',
        )
    number = names.index(corpus.column)
    kind, _, form = encodings[number].partition(":")
    dtype, _, shape = form.partition(":")
    if kind != "ndarray" or (dtype and dtype not in DTYPES.values()):
        raise DataError(
            f"{where}: column {corpus.column!r} is {encodings[number]}, integers expected",
            "write ids as ndarray:uint16 or ndarray:uint32; files(...) reads text",
        )
    sizes = tuple(size or 0 for size in shard["column_sizes"])
    known = np.dtype(dtype).newbyteorder("<") if dtype else None
    return Column(number, sizes, known, shaped=bool(shape))


def _documents(
    file: AnyFile, compression: str, count: int, size: int, column: Column
) -> Iterator[TokenDocument]:
    with opened_anywhere(file) as stream:
        raw = stream.read()
    with as_data_error(f"{file} is damaged", COPY_AGAIN):
        if compression:
            import pyarrow

            raw = pyarrow.decompress(raw, size, COMPRESSIONS[compression], asbytes=True)
        ends = np.frombuffer(raw, "<u4", count + 2)
        if ends[0] != count or ends[-1] != len(raw) or np.any(np.diff(ends[1:].astype(int)) < 0):
            raise ValueError("samples do not follow each other to the end")
        for begin, end in pairwise(ends[1:].tolist()):
            yield TokenDocument(_ids(raw, begin, end, column), end - begin, file)


def _ids(raw: bytes, begin: int, end: int, column: Column) -> NDArray[Any]:
    """The ids in a sample: sizes of columns that vary, then all columns."""
    vary = column.sizes.count(0)
    varying = iter(np.frombuffer(raw, "<u4", vary, begin).tolist())
    sizes = [size or next(varying) for size in column.sizes]
    at, after = list(accumulate(sizes, initial=begin + 4 * vary))[column.number :][:2]
    dtype = column.dtype
    if dtype is None:
        dtype, at = np.dtype(DTYPES[raw[at]]).newbyteorder("<"), at + 1
    if not column.shaped:  # the number of axes and the bytes of each length, then the lengths
        at += 1 + ((raw[at] >> 2) << (raw[at] & 3))
    count, rest = divmod(after - at, dtype.itemsize)
    if rest or count < 0 or after > end:
        raise ValueError("an array is cut short")
    return np.frombuffer(raw, dtype, count, at)
