"""Tokens that others made: documents of token ids, in the files of mosaicml's MDS and datatrove."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import MissingInputError
from bertc.base.storage.paths import AnyFile
from bertc.base.storage.plain_file import no_folder
from bertc.base.storage.remote import files_below, is_address
from bertc.data.sources.files import file_identity
from bertc.data.sources.source import TextSource, grouped
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

    @property
    def tokens(self) -> int:
        """The ids in it; about, where each document has a dtype."""
        return self.size // (self.dtype.itemsize if self.dtype else 2)

    @property
    def largest(self) -> int:
        """The largest id that it can hold."""
        return int(np.iinfo(self.dtype).max) if self.dtype else sys.maxsize


@dataclass(frozen=True, kw_only=True)
class TokenSource(TextSource):
    """A corpus whose documents are token ids."""

    documents: Callable[[], Iterator[TokenDocument]]


def files_of(corpus: Mds | Datatrove) -> dict[str, AnyFile]:
    """The files of a corpus, by their names from its folder."""
    files = files_below(corpus.path)
    if not files and not is_address(corpus.path) and (missing := no_folder(corpus.path)):
        raise MissingInputError(*missing)
    return files


def open_tokens_of_others(corpus: Mds | Datatrove, files: list[TokenFile]) -> TokenSource:
    """Open files of tokens, some together as a part of about ``PART_TOKENS``."""

    def opened(name: str, chosen: list[TokenFile]) -> TokenSource:
        return TokenSource(
            name=name,
            identity=(
                corpus.kind,
                corpus.column if isinstance(corpus, Mds) else "",
                *(file_identity(one.file) for one in chosen),
                *(one.share for one in chosen if one.share != (0, 1)),
            ),
            sentences="whole",
            total=sum(one.size for one in chosen),
            unit="bytes",
            text_bytes=sum(one.tokens for one in chosen) * BYTES_PER_TOKEN,
            read=partial(iter, ()),  # no vocabulary is learned from tokens
            documents=partial(_documents, chosen),
        )

    parts = grouped([(one, one.tokens) for one in files], PART_TOKENS)
    if len(parts) == 1:
        return opened(corpus.path, files)
    names = (f"{corpus.path} ({nth} of {len(parts)})" for nth in range(1, len(parts) + 1))
    return replace(opened(corpus.path, files), parts=tuple(map(opened, names, parts)))


def _documents(files: list[TokenFile]) -> Iterator[TokenDocument]:
    for file in files:
        yield from file.documents()
