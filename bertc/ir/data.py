"""Sources of text, row formats, and the mixing of languages."""

from operator import not_
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from bertc.ir.base import BY_KIND, Node, Probability, plain_name

Sentences = Literal["split", "lines", "whole"]
"""Sentence boundaries.

``split``: found by a library; ``lines``: one sentence per line, blank lines between documents;
``whole``: text stays unchanged, white space included."""
Language = Annotated[str, AfterValidator(plain_name)]
"""The user's name for the language of a text, such as ``en``; empty for none."""
Cut = bool | Literal["random", "end"]
WINDOW = 16
"""Shards whose rows are mixed with each other: about a billion tokens."""


class _OneLanguage(Node):
    language: Language = ""
    is_text: ClassVar[bool] = True
    """True if it is read as documents of text: neither tokens nor pairs of sentences."""
    layout: ClassVar[tuple[str, ...]] = ()
    """Arguments for the text of a file and its sentences; other text takes them over."""

    @property
    def languages(self) -> tuple[Language, ...]:
        return (self.language,)


class Docstrings(_OneLanguage):
    """The documentation strings of the standard library and the installed packages.

    ``packages`` limits them to the named top-level modules; empty means all.
    """

    kind: Literal["docstrings"] = "docstrings"
    packages: tuple[str, ...] = ()
    positional = ("packages",)


class Files(_OneLanguage):
    """Files that match a glob: text, and .jsonl, .csv, .tsv, .parquet, each also .gz or .zst.

    In those four formats each row is a document, its text in ``column``, or a list of items, words
    or numbers; with ``ids`` these are token ids as they are. Any other file is plain text: one
    document, or with ``sentences=lines`` several, separated by blank lines.
    """

    kind: Literal["files"] = "files"
    path: Annotated[str, Field(min_length=1)]
    column: str = "text"
    sentences: Sentences = "split"
    ids: Annotated[bool, Field(exclude_if=not_)] = False
    layout = ("column", "sentences")
    positional = ("path", "column")
    bare_string = ("path",)


class Fasta(_OneLanguage):
    """Sequences in FASTA, each a document, or reads in FASTQ (.fastq, .fq); also .gz or .zst.

    Lower-case letters, which are soft-masked, are read as upper-case ones or, with ``masked=skip``,
    left out; so is a ``*`` at the end of a sequence.
    """

    kind: Literal["fasta"] = "fasta"
    path: Annotated[str, Field(min_length=1)]
    masked: Literal["upper", "skip"] = "upper"
    sentences: ClassVar[Sentences] = "whole"
    ids: ClassVar[bool] = False
    layout = ("masked",)
    positional = ("path",)


class Hf(_OneLanguage):
    """A data set read through the ``datasets`` library, by hub name or local path."""

    kind: Literal["hf"] = "hf"
    name: Annotated[str, Field(min_length=1)]
    config: str = ""
    split: str = "train"
    column: str = "text"
    sentences: Sentences = "split"
    layout = ("column", "sentences")
    positional = ("name", "config")


class Prepared(_OneLanguage):
    """Text that ``bertc prepare`` made tokens of, in a folder here or at an address of a store.

    ``cache`` is the most bytes of a store's shards that are on this machine at once, 0 for all.
    The rows of ``window`` shards are mixed with each other.
    """

    kind: Literal["prepared"] = "prepared"
    path: Annotated[str, Field(min_length=1)]
    cache: Annotated[int, Field(ge=0)] = 0
    window: Annotated[int, Field(ge=1, le=256, exclude_if=WINDOW.__eq__)] = WINDOW
    is_text = False
    positional = ("path",)
    bare_string = ("path",)


_TWO = 'name a file for each of two, as in data=pairs(en="a.en", fr="a.fr")'


class Parallel(Node):
    """Sentences and their translations: ``pairs(en="a.en", fr="a.fr")``, line by line.

    ``pairs("a.tsv", en="english", fr="french")`` names the columns of one .jsonl, .csv, .tsv or
    .parquet file. A pair with an empty side is left out. ``sides`` are (language, file or column).
    """

    kind: Literal["pairs"] = "pairs"
    path: str = ""
    sides: tuple[tuple[Language, str], ...] = ()
    is_text: ClassVar[bool] = False
    layout: ClassVar[tuple[str, ...]] = ()
    positional = ("path",)
    others = "sides"

    @model_validator(mode="after")
    def _two_sides(self) -> "Parallel":
        if len(self.sides) != 2:
            named = " and ".join(language for language, _ in self.sides) or "none"
            raise ValueError(f"pairs has two languages, not {named}", _TWO)
        if not all(where for _, where in self.sides):
            raise ValueError("pairs has a language without a file or column", _TWO)
        return self

    @property
    def languages(self) -> tuple[Language, ...]:
        """The languages of both sides, in the order of the rows."""
        return tuple(language for language, _ in self.sides)


Corpus = Annotated[Docstrings | Fasta | Files | Hf | Parallel | Prepared, BY_KIND]


class Share(Node):
    """A source and its weight: sources are drawn in proportion to weight x tokens."""

    weight: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    corpus: Corpus


class RowFormat(Node):
    """The base of row formats, which have one part, read in one direction."""

    @property
    def directions(self) -> int:
        """Number of reading directions of rows, 1 or 2."""
        return 1

    def parts(self, seq: int) -> tuple[int, ...]:
        """Token counts of the parts of a row; the next batch continues after the first part."""
        return (seq,)


class SegmentPair(RowFormat):
    """[CLS] A [SEP] B [SEP], A and B runs of sentences (BERT, RoBERTa 4.2 SEGMENT-PAIR).

    ``short`` is the probability of a shorter target length, drawn once per document or per example.
    """

    kind: Literal["segment-pair"] = "segment-pair"
    short: Probability = 0.1  # BERT --short_seq_prob
    short_per: Literal["document", "example"] = "document"  # BERT create_pretraining_data.py
    positional = ("short",)


class SentencePair(RowFormat):
    """[CLS] A [SEP] B [SEP], A and B single sentences (RoBERTa 4.2 SENTENCE-PAIR)."""

    kind: Literal["sentence-pair"] = "sentence-pair"


class FullSentences(RowFormat):
    """Whole sentences, as many as fit, across documents with a separator between (RoBERTa 4.2)."""

    kind: Literal["full-sentences"] = "full-sentences"


class Blocks(RowFormat):
    """Running text in blocks of equal length, which start and end anywhere (XLM dataset.py).

    Documents follow each other, with a separator after each.
    """

    kind: Literal["blocks"] = "blocks"


class DocSentences(RowFormat):
    """Whole sentences of one document, as many as fit (RoBERTa 4.2, SpanBERT as released).

    With ``cut`` each document is one row: its beginning, up to the last token that fits, or with
    ``cut=random`` as many tokens from a place that is drawn in every pass (ESM-2); ``end``: its
    last ones, the newest of a session.
    """

    kind: Literal["doc-sentences"] = "doc-sentences"
    cut: Annotated[Cut, Field(exclude_if=not_)] = False


class SingleSegment(RowFormat):
    """[CLS] x [SEP], x a contiguous run of one document (SpanBERT 3.3)."""

    kind: Literal["single-segment"] = "single-segment"
    short: Probability = 0.0  # SpanBERT README, --short-seq-prob
    positional = ("short",)


class Stream(RowFormat):
    """A stream of text: row r of a batch continues where row r of the batch before ended.

    Documents follow each other, with a separator after each; rows have no special tokens of their
    own.
    """

    kind: Literal["stream"] = "stream"


class StreamPair(RowFormat):
    """A stream of text, then two segments: x A [SEP] B [SEP] [CLS] (XLNet data_utils.py).

    x has ``reuse`` tokens, 0: half of a row. In the next batch the row continues after x, so A
    starts with the next row's x. A ends with a sentence; B is the following text or, with
    probability 1/2, text from elsewhere. x does not attend to the rest of its row. With
    ``both_ways`` every other row reads the text in reverse, and its distances are negated.
    """

    kind: Literal["stream-pair"] = "stream-pair"
    reuse: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    both_ways: bool = False
    positional = ("reuse",)

    @property
    def directions(self) -> int:
        return 1 + self.both_ways

    def parts(self, seq: int) -> tuple[int, int]:
        reused = self.reuse or seq // 2
        return reused, seq - reused


Format = Annotated[
    SegmentPair | SentencePair | FullSentences | Blocks | DocSentences | SingleSegment
    | Stream | StreamPair,
    BY_KIND,
]  # fmt: skip
PAIRED = ("segment-pair", "sentence-pair")
RUNNING = ("stream", "stream-pair")
"""Formats in which rows continue from batch to batch."""
FULL = ("blocks", *RUNNING)
"""Formats whose rows have no padding."""
FILLED = ("full-sentences", *FULL)
"""Formats whose rows continue across documents, so that packing would gain nothing."""


def file_names(corpus: Corpus) -> tuple[tuple[str, str], ...]:
    """Names of files, each with its argument."""
    match corpus:
        case Parallel(path=""):
            return tuple((where, language) for language, where in corpus.sides)
        case Fasta() | Files() | Parallel():
            return ((corpus.path, "path"),)
        case Docstrings() | Hf() | Prepared():
            return ()


class Turns(Node):
    """Mixing of languages, and of translations with monolingual text."""

    translations: Annotated[float, Field(ge=0, lt=1)] = 0.0
    both_orders: bool = False
    positional = ("translations",)


class MixedRows(Turns):
    """Rows of any language in a batch.

    ``translations``: the fraction of rows that are pairs, if there is monolingual text too; 0: in
    proportion to the data. ``both_orders``: each pair is read in both orders, equally often.
    """

    kind: Literal["rows"] = "rows"


class MixedBatches(Turns):
    """Batches of one language, or of one translation direction (XLM trainer.py, mlm_step)."""

    kind: Literal["batches"] = "batches"


Mixing = Annotated[MixedRows | MixedBatches, BY_KIND]
