"""Tokens that others made: documents of token ids, in the files of mosaicml's MDS and datatrove."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import DataError, MissingInputError
from bertc.base.storage.plain_file import no_folder
from bertc.base.storage.remote import AnyFile, files_below, is_address
from bertc.data.sources.source import Piece, TextSource, grouped
from bertc.ir.data import Datatrove, Mds

PART_TOKENS = 32 << 20
"""Tokens of a part, about; as many as 128 MiB of text have."""
COPY_AGAIN = "copy it again from its source"
BYTES_PER_TOKEN = 4
"""Bytes of text of a token, about."""


class TokenDocument(NamedTuple):
    """The ids of a document, special ones included, the bytes read for it, and its file."""

    ids: NDArray[Any]
    amount: int
    file: AnyFile


class TokenFile(NamedTuple):
    """A file of tokens, or some of its documents: the ``nth`` of ``of`` shares.

    ``size`` is that of its ids in bytes; ``dtype`` is None where each document has one.
    """

    file: AnyFile
    size: int
    dtype: np.dtype[Any] | None
    documents: Callable[[], Iterator[TokenDocument]]
    share: tuple[int, int] = (0, 1)


@dataclass(frozen=True, kw_only=True)
class TokenSource(TextSource):
    """A corpus whose documents are token ids; ``largest`` is the largest id it can hold."""

    documents: Callable[[], Iterator[TokenDocument]]
    largest: int


def files_of(corpus: Mds | Datatrove) -> dict[str, AnyFile]:
    """The files of a corpus, by their names from its folder."""
    files = files_below(corpus.path)
    if not files and not is_address(corpus.path) and (missing := no_folder(corpus.path)):
        raise MissingInputError(*missing)
    return files


def open_tokens_of_others(
    corpus: Mds | Datatrove,
    files: list[TokenFile],
    identity: Callable[[AnyFile], tuple[object, ...]],
) -> TokenSource:
    """Open files of tokens, some together as a part of about ``PART_TOKENS``."""

    def opened(name: str, chosen: list[TokenFile]) -> TokenSource:
        size = sum(one.size for one in chosen)
        return TokenSource(
            name=name,
            identity=(
                corpus.kind,
                corpus.column if isinstance(corpus, Mds) else "",
                *(identity(one.file) for one in chosen),
                *(one.share for one in chosen if one.share != (0, 1)),
            ),
            sentences="whole",
            total=size,
            unit="bytes",
            text_bytes=sum(map(_tokens, chosen)) * BYTES_PER_TOKEN,
            read=_no_text,
            documents=partial(_documents, chosen),
            largest=min(largest_id(one.dtype) for one in chosen),
        )

    parts = grouped([(one, _tokens(one)) for one in files], PART_TOKENS)
    if len(parts) == 1:
        return opened(corpus.path, files)
    names = (f"{corpus.path} ({nth} of {len(parts)})" for nth in range(1, len(parts) + 1))
    return replace(opened(corpus.path, files), parts=tuple(map(opened, names, parts)))


def _documents(files: list[TokenFile]) -> Iterator[TokenDocument]:
    for file in files:
        yield from file.documents()


def _tokens(file: TokenFile) -> int:
    return file.size // (file.dtype.itemsize if file.dtype else 2)


def largest_id(dtype: np.dtype[Any] | None) -> int:
    """The largest id of a dtype."""
    return int(np.iinfo(dtype).max) if dtype else sys.maxsize


def require_room(where: str, largest: int, size: int) -> None:
    """Refuse ids that cannot name every token of a vocabulary of ``size``."""
    if largest < size - 1:
        raise DataError(
            f"{where} has ids up to {largest:,}, but the vocabulary has {size:,} tokens",
            "vocab names the tokenizer that made them",
        )


def _no_text() -> Iterator[Piece]:
    raise DataError(
        "a vocabulary is learned from text, not from tokens",
        'vocab="FOLDER" names the tokenizer that made the tokens',
    )
