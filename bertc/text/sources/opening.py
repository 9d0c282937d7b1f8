"""Opening of the source that a corpus names."""

from bertc.base.diagnostics import DataError
from bertc.ir.data import Corpus, Docstrings, Files, Hf, Parallel, Prepared
from bertc.text.sources.docstrings import open_docstrings
from bertc.text.sources.files import open_files, open_parallel
from bertc.text.sources.hub import open_hf
from bertc.text.sources.source import TextSource


def open_source(corpus: Corpus, side: int | None = None) -> TextSource:
    """Open a corpus, or one side of a parallel one, without reading its text."""
    match corpus:
        case Docstrings():
            return open_docstrings(corpus)
        case Files():
            return open_files(corpus)
        case Hf():
            return open_hf(corpus)
        case Parallel():
            return open_parallel(corpus, side)
        case Prepared():
            raise DataError(
                f"the text at {corpus.path} is prepared: it is tokens already, nothing is learned",
                "leave vocab out: the run uses the tokenizer that the text is prepared with",
            )
