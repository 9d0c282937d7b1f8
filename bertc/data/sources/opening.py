"""Opening of the source that a corpus names."""

from typing import assert_never

from bertc.data.sources.source import TextSource
from bertc.ir.data import Corpus, Docstrings, Files, Hf, Parallel


def open_source(corpus: Corpus, side: int | None = None) -> TextSource:
    """Open a corpus, or one side of a parallel one, without reading its text."""
    match corpus:
        case Docstrings():
            from bertc.data.sources.docstrings import open_docstrings

            return open_docstrings(corpus)
        case Files():
            from bertc.data.sources.files import open_files

            return open_files(corpus)
        case Hf():
            from bertc.data.sources.hub import open_hf

            return open_hf(corpus)
        case Parallel():
            from bertc.data.sources.parallel import open_parallel

            return open_parallel(corpus, side)
    assert_never(corpus)
