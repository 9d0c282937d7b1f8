"""Files of datatrove's DocumentTokenizer: ids in .ds, ends of documents in .ds.index.

The layout is that of datatrove/pipeline/tokens/tokenizer.py: ids of two or four bytes, and ends in
tokens, of eight.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from bertc.base.diagnostics import DataError, MissingInputError
from bertc.base.storage.paths import AnyFile
from bertc.base.storage.remote import opened_anywhere, size_of
from bertc.data.sources.tokens import COPY_AGAIN, PART_TOKENS, TokenDocument, TokenFile, files_of
from bertc.ir.data import Datatrove

IDS, INDEX = ".ds", ".ds.index"
END_BYTES = 8


def datatrove_files(corpus: Datatrove) -> list[TokenFile]:
    """The files of ids in a folder and those below; large ones in shares of their documents."""
    files = files_of(corpus)
    names = [name for name in sorted(files) if name.endswith(IDS)]
    if not names:
        raise MissingInputError(
            f"there is no {IDS} file of datatrove in {corpus.path}",
            "name the folder that its DocumentTokenizer wrote",
        )
    found = list[TokenFile]()
    for name in names:
        file, index = files[name], files.get(name.removesuffix(IDS) + INDEX)
        if index is None:
            raise MissingInputError(
                f"{file} has no {INDEX}, which says where its documents end",
                "write it with save_index=True",
            )
        if size_of(file) or size_of(index):
            found += _shares(file, index)
    if not found:
        raise DataError(f"{corpus.path} has no documents", COPY_AGAIN)
    return found


def _shares(file: AnyFile, index: AnyFile) -> list[TokenFile]:
    documents, rest = divmod(size_of(index), END_BYTES)
    tokens = 0 if rest or not documents else _ends(index, documents - 1, documents)[0]
    width = size_of(file) // tokens if tokens else 0
    if width not in (2, 4) or width * tokens != size_of(file):
        raise DataError(
            f"{file} has {size_of(file):,} bytes, its index says {tokens:,} tokens of 2 or 4",
            COPY_AGAIN,
        )
    dtype = np.dtype(f"<u{width}")
    count = max(1, min(documents, round(tokens / PART_TOKENS)))
    bounds = [documents * nth // count for nth in range(count + 1)]
    reads = [partial(_documents, file, index, dtype, *ends) for ends in pairwise(bounds)]
    size = width * tokens // count
    return [TokenFile(file, size, dtype, read, (nth, count)) for nth, read in enumerate(reads)]


def _ends(index: AnyFile, first: int, last: int) -> list[int]:
    """The ends of the documents of these numbers, in tokens."""
    with opened_anywhere(index) as stream:
        stream.seek(first * END_BYTES)
        raw = stream.read((last - first) * END_BYTES)
    return [int(end) for end in np.frombuffer(raw, "<u8")]


def _documents(
    file: AnyFile, index: AnyFile, dtype: np.dtype[np.unsignedinteger], first: int, last: int
) -> Iterator[TokenDocument]:
    ends = _ends(index, max(0, first - 1), last)
    begin = ends.pop(0) if first else 0
    with opened_anywhere(file) as stream:
        stream.seek(begin * dtype.itemsize)
        for end in ends:
            size = max(0, end - begin) * dtype.itemsize
            raw = stream.read(size)
            if end < begin or len(raw) != size:
                raise DataError(f"{index} does not fit {file}: its ends do not rise", COPY_AGAIN)
            yield TokenDocument(np.frombuffer(raw, dtype), size, file)
            begin = end
