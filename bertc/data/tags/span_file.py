"""Spans from a file: a JSON line for each document, in the order of the corpus.

``{"begins": "Peter Blackburn", "spans": [[0, 15, "PER"]]}``: begin and end in characters of the
document, and a label. Spans ascend and do not overlap. The document has to begin with ``begins``,
which may be left out.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from bertc.data.rows.tokenise import RawPiece
from bertc.data.sources.files import file_identity
from bertc.data.sources.streams import lines, opened_stream
from bertc.data.tags.spans import Span
from bertc.diagnostics import DataError
from bertc.storage.paths import user_path

FORM = '{"begins": "Peter Blackburn", "spans": [[0, 15, "PER"]]}'


class SpanLine(NamedTuple):
    """A line of the file: its place, the beginning of its document, and the document's spans."""

    place: str
    begins: str
    spans: list[Span]


class SpanFile:
    """The spans of a file, taken in the order of the documents."""

    def __init__(self, name: str) -> None:
        self.name, self.path = name, user_path(name)
        self._lines: Iterator[SpanLine] = iter(())
        self._line: SpanLine | None = None
        self._documents = 0
        self._read = 0  # characters of the document before this piece

    def identity(self) -> list[object]:
        """Values that change with the file.

        Raises:
            MissingInputError: it is not there.
        """
        with opened_stream(self.path):
            return list(file_identity(self.path))

    def labels(self) -> tuple[str, ...]:
        """All labels, in order.

        Raises:
            DataError: a line is not of this form; says which.
        """
        return tuple(sorted({span.label for line in _read(self.path) for span in line.spans}))

    def begin(self) -> None:
        """Begin with the first document."""
        self._lines, self._line, self._documents, self._read = _read(self.path), None, 0, 0

    def take(self, pieces: list[RawPiece], split_pieces: list[list[str]]) -> list[list[Span]]:
        """The spans of every sentence of some pieces, in characters of the sentence."""
        every = zip(pieces, split_pieces, strict=True)
        return list(chain.from_iterable(self._of_piece(*each) for each in every))

    def end(self) -> None:
        """End after the last document.

        Raises:
            DataError: there are lines without one.
        """
        self._finish()
        if line := next(self._lines, None):
            raise DataError(
                f"{line.place}: there are only {self._documents:,} documents",
                help="the file has a line for each document of the corpus, in order",
            )

    def _of_piece(self, piece: RawPiece, sentences: list[str]) -> list[list[Span]]:
        if piece.first:
            self._finish()
            self._line, self._read = self._next(piece.text), 0
        begin, end = self._read, self._read + len(piece.text)
        self._read = end
        spans = self._line.spans if self._line else []
        here = spans[bisect_left(spans, begin, key=lambda span: span.end - 1) :]
        here = [span for span in here if span.begin < end]
        return in_sentences(
            piece.text,
            sentences,
            [Span(max(0, b - begin), min(e, end) - begin, label) for b, e, label in here],
        )

    def _next(self, text: str) -> SpanLine | None:
        line, self._documents = next(self._lines, None), self._documents + 1
        if line is None:
            if not text.strip():  # such as the empty rest of a corpus
                return None
            raise DataError(
                f"{self.name} has spans of {self._documents - 1:,} documents, the corpus has more",
                help="write a line for each document, with an empty list if it has no spans",
            )
        if not text.startswith(line.begins):
            raise DataError(
                f"{line.place}: the document begins {text[:40]!r}, not {line.begins[:40]!r}",
                help="the file has a line for each document of the corpus, in order",
            )
        return line

    def _finish(self) -> None:
        """Check that the spans of a document are within it."""
        if self._line and self._line.spans and self._line.spans[-1].end > self._read:
            begin, end, label = self._line.spans[-1]
            raise DataError(
                f"{self._line.place}: {label} [{begin}, {end}] is outside of document "
                f"{self._documents:,}, which has {self._read:,} characters",
                help="begin and end count characters of the document, not bytes or tokens",
            )


def in_sentences(text: str, sentences: list[str], spans: list[Span]) -> list[list[Span]]:
    """The spans of a text as spans of its sentences; one that goes on in the next is cut.

    Sentences have all characters of the text but white space, so these are counted.
    """
    if not spans:
        return [[] for _ in sentences]
    solid = [at for at, character in enumerate(text) if not character.isspace()]
    places = [
        (number, at)
        for number, sentence in enumerate(sentences)
        for at, character in enumerate(sentence)
        if not character.isspace()
    ]
    assert len(solid) == len(places), "sentences have all that is not white space"
    by_sentence: list[list[Span]] = [[] for _ in sentences]
    for begin, end, label in spans:
        within = places[bisect_left(solid, begin) : bisect_left(solid, end)]
        for number in dict.fromkeys(number for number, _ in within):
            at = [at for nth, at in within if nth == number]
            by_sentence[number].append(Span(at[0], at[-1] + 1, label))
    return by_sentence


def _read(path: Path) -> Iterator[SpanLine]:
    with opened_stream(path) as file:
        for number, text in lines(file):
            if text.strip():
                place = f"{path}:{number}"
                try:
                    yield _parsed(place, json.loads(text))
                except ValueError as error:
                    raise DataError(
                        f"{place}: {_reason(error)}", help=f"a line is like {FORM}"
                    ) from None


def _reason(error: ValueError) -> str:
    broken = isinstance(error, json.JSONDecodeError)
    return f"no JSON object: {error}" if broken else str(error)


def _parsed(place: str, line: Any) -> SpanLine:
    """A line of the file.

    Raises:
        ValueError: with the reason why it is none.
    """
    if not isinstance(line, dict) or not isinstance(line.get("spans"), list):
        raise ValueError('no object with a list of "spans"')
    begins = line.get("begins", "")
    if not isinstance(begins, str):
        raise ValueError('"begins" is not a text')
    spans = [_span(each) for each in line["spans"]]
    for before, after in pairwise(spans):
        if after.begin < before.end:
            raise ValueError(
                f"{after.label} [{after.begin}, {after.end}] begins before the span before it ends"
            )
    return SpanLine(place, begins, spans)


def _span(given: Any) -> Span:
    match given:
        case [int(begin), int(end), str(label)] if 0 <= begin < end and label:
            return Span(begin, end, label)
    raise ValueError(f"{json.dumps(given)[:60]} is no [begin, end, label] with begin < end")
