"""Opening of the source that a corpus names."""

from bertc.base.diagnostics import DataError
from bertc.data.sources.datatrove import datatrove_files
from bertc.data.sources.docstrings import open_docstrings
from bertc.data.sources.files import open_files, open_parallel
from bertc.data.sources.hub import open_hf
from bertc.data.sources.mds import mds_shards
from bertc.data.sources.source import TextSource
from bertc.data.sources.tokens import TokenFile, open_tokens_of_others
from bertc.ir.data import Corpus, Datatrove, Docstrings, Files, Hf, Mds, Parallel, Prepared


def token_files(corpus: Mds | Datatrove) -> list[TokenFile]:
    """The files of tokens of others; what their index says is checked."""
    match corpus:
        case Mds():
            return mds_shards(corpus)
        case Datatrove():
            return datatrove_files(corpus)


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
        case Mds() | Datatrove():
            return open_tokens_of_others(corpus, token_files(corpus))
        case Prepared():
            raise DataError(
                f"the text at {corpus.path} is prepared: it is tokens already, nothing is learned",
                "leave vocab out: the run uses the tokenizer that the text is prepared with",
            )
