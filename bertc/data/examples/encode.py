"""Examples of a task as rows of tokens: special tokens, cutting, windows, where answers stand.

Axes: r rows, t tokens of all rows, n examples, w words of all rows.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from bertc.data.layouts.example import Asked, Chosen, Example, Labelled, Scored, Tagged
from bertc.data.vocab.template import filled, template_of
from bertc.data.vocab.vocabulary import Vocabulary
from bertc.ir.learning.answer import Choice, Labels, Tags
from bertc.ir.learning.custom_task import AnyTask, Choose, Read
from bertc.ir.learning.task import Race, Squad

AT_ONCE = 4096
"""Texts that the tokenizer is given together."""


@dataclass(frozen=True, eq=False)
class TaskRows:
    """Examples as rows laid end to end; each has one row, a row a choice, or a row a window.

    ``targets``: the label, the score, or the right choice, of each row's example; first and last
    token of the answer, both 0 where there is none in the window. -1, or not a number, where the
    file does not tell.

    ``cut`` examples lost some of their text to the length of a row, ``asked_cut`` some of their
    question to its own limit. ``lost`` answers stand in no window, or words beyond their row;
    ``blank`` are words that no token stands for.
    """

    token_ids: NDArray[np.int32]  # (t,)
    segment_ids: NDArray[np.uint8]  # (t,)
    begins: NDArray[np.int64]  # (r + 1,)
    owners: NDArray[np.int64]  # (r,) number of the example
    targets: NDArray[np.float64]  # (r, 1), of spans (r, 2), of tags (r, 0)
    there: NDArray[np.bool_]  # (r,) false for a choice that an example does not have
    words: NDArray[np.int64]  # (w,) the first token of each word, counted from its row's
    word_begins: NDArray[np.int64]  # (r + 1,)
    tags: NDArray[np.int64]  # (w,) -1 where it is not told
    offsets: NDArray[np.int32]  # (t, 2) characters of the passage, -1 elsewhere; of spans alone
    firsts: NDArray[np.int64]  # (r,) of spans, where in the passage the window begins, in tokens
    cls_last: bool
    cut: int = 0
    asked_cut: int = 0
    lost: int = 0
    blank: tuple[str, ...] = ()

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row."""
        return np.diff(self.begins)


class _Rows:
    """Rows as they are made, of at most ``seq`` tokens of a vocabulary, around which go others."""

    def __init__(self, vocabulary: Vocabulary, seq: int, segments: int, spans: bool) -> None:
        self.vocabulary, self.seq = vocabulary, seq
        self.template = template_of(vocabulary)
        self._most = max(0, segments - 1)
        self._ids: list[NDArray[np.int32]] = []
        self._segments: list[NDArray[np.uint8]] = []
        self._offsets: list[NDArray[np.int32]] = []
        self._spans = spans
        self.owners: list[int] = []
        self.targets: list[tuple[float, ...]] = []
        self.there: list[bool] = []
        self.firsts: list[int] = []
        self.words: list[NDArray[np.int64]] = []
        self.tags: list[NDArray[np.int64]] = []
        self.cut = self.asked_cut = self.lost = 0
        self.blank: list[str] = []

    def add(
        self,
        owner: int,
        parts: Iterable[tuple[Sequence[int], Sequence[int]]],
        target: tuple[float, ...],
        offsets: NDArray[np.int32] | None = None,
        there: bool = True,
        first: int = 0,
    ) -> None:
        """A row of parts, each its token ids and their segments."""
        ids, segments = zip(*parts, strict=True)
        row = np.concatenate([np.asarray(part, dtype=np.int32) for part in ids])
        segment = np.concatenate([np.asarray(part, dtype=np.uint8) for part in segments])
        self._ids.append(row)
        self._segments.append(np.minimum(segment, self._most).astype(np.uint8))
        if self._spans:
            assert offsets is not None, "a window knows its passage"
            self._offsets.append(offsets)
        self.owners.append(owner)
        self.targets.append(target)
        self.there.append(there)
        self.firsts.append(first)

    def room(self, texts: int) -> int:
        """The tokens of so many texts that a row holds."""
        return self.seq - self.template.specials(texts)

    def done(self) -> TaskRows:
        """All of them."""
        rows = len(self._ids)
        empty = np.zeros(0, dtype=np.int64)
        counts = [len(words) for words in self.words] or [0] * rows
        return TaskRows(
            np.concatenate([*self._ids, np.zeros(0, np.int32)]),
            np.concatenate([*self._segments, np.zeros(0, np.uint8)]),
            np.cumsum([0, *map(len, self._ids)], dtype=np.int64),
            np.asarray(self.owners, dtype=np.int64),
            np.asarray(self.targets, dtype=np.float64).reshape(rows, -1 if rows else 0),
            np.asarray(self.there, dtype=np.bool_),
            np.concatenate([*self.words, empty]),
            np.cumsum([0, *counts], dtype=np.int64),
            np.concatenate([*self.tags, empty]),
            np.concatenate([*self._offsets, np.zeros((0, 2), np.int32)]),
            np.asarray(self.firsts, dtype=np.int64),
            self.template.last,
            self.cut,
            self.asked_cut,
            self.lost,
            tuple(self.blank),
        )


def encode(
    task: AnyTask, examples: Sequence[Example], vocabulary: Vocabulary, seq: int, segments: int
) -> TaskRows:
    """Rows of at most ``seq`` tokens; ``segments`` is the number of token types of the encoder."""
    rows = _Rows(vocabulary, seq, segments, spans=task.answer.kind == "span")
    if not examples:
        return rows.done()
    match examples[0]:
        case Labelled() | Scored():
            _texts(task, examples, rows)
        case Chosen():
            _choices(task, examples, rows)
        case Tagged():
            _tagged(task, examples, rows)
        case Asked():
            _windows(task, examples, rows)
        case unreachable:
            assert_never(unreachable)
    return rows.done()


def _texts(task: AnyTask, examples: Sequence[Example], rows: _Rows) -> None:
    """Single texts and pairs. Of a pair that is too long the longer text loses its last token."""
    answer = task.answer
    numbers = {name: i for i, name in enumerate(answer.names)} if isinstance(answer, Labels) else {}
    found = [e for e in examples if isinstance(e, Labelled | Scored)]
    firsts = _ids(rows.vocabulary, [e.texts[0] for e in found])
    seconds = iter(_ids(rows.vocabulary, [e.texts[1] for e in found if len(e.texts) > 1]))
    for number, (example, first) in enumerate(zip(found, firsts, strict=True)):
        second = next(seconds) if len(example.texts) > 1 else None
        if isinstance(example, Labelled):
            target = -1.0 if example.label is None else float(numbers[example.label])
        else:
            target = float("nan") if example.score is None else example.score
        kept = _fit(first, second, rows.room(len(example.texts)))
        rows.cut += kept != (first, second)
        rows.add(number, filled(rows.template, *kept), (target,))


def _choices(task: AnyTask, examples: Sequence[Example], rows: _Rows) -> None:
    """A row for each choice: passage, then question and choice, of which an end is kept.

    Where the question has a gap (``_``) the choice stands in it. Without a passage the question is
    one text and the choice the other. Either may stand first.
    """
    assert isinstance(task, Race | Choose), "who chooses has choices"
    assert isinstance(task.answer, Choice), "who chooses has choices"
    for number, example in enumerate(examples):
        assert isinstance(example, Chosen), "examples of a task are of one kind"
        right = -1.0 if example.right is None else float(example.right)
        if example.passage:
            gap = "_" in example.question
            asked = [
                example.question.replace("_", choice, 1) if gap else f"{example.question} {choice}"
                for choice in example.choices
            ]
        else:
            asked = list(example.choices)
        (passage, *others) = _ids(rows.vocabulary, [example.passage or example.question, *asked])
        shortened = asked_shortened = False
        for place in range(task.answer.most):
            there = place < len(others)
            choice = others[place if there else 0]
            if example.passage:
                asked_shortened |= len(choice) > task.question
                end = task.keeps == "end"
                choice = choice[-task.question :] if end else choice[: task.question]
            pair = (passage, choice) if task.first == "passage" else (choice, passage)
            kept = _fit(*pair, rows.room(2))
            shortened |= kept != pair
            rows.add(number, filled(rows.template, *kept), (right,), there=there)
        rows.cut += shortened
        rows.asked_cut += asked_shortened


def _tagged(task: AnyTask, examples: Sequence[Example], rows: _Rows) -> None:
    """Words one after another, each cut into tokens by itself; the first of each is asked."""
    answer = task.answer
    assert isinstance(answer, Tags)
    numbers = {name: i for i, name in enumerate(answer.names)}
    room = rows.room(1)
    found = [e for e in examples if isinstance(e, Tagged)]
    spaced = _keeps_spaces(rows.vocabulary)
    for at in range(0, len(found), AT_ONCE):
        part = found[at : at + AT_ONCE]
        encodings = rows.vocabulary.tokenizer.encode_batch(
            [_as_in_text(example.words, spaced) for example in part],
            is_pretokenized=True,
            add_special_tokens=False,
        )
        for number, (example, encoding) in enumerate(zip(part, encodings, strict=True), at):
            of_word = np.array([-1 if w is None else w for w in encoding.word_ids], dtype=np.int64)
            ids = encoding.ids[:room]
            words, firsts = np.unique(of_word[:room], return_index=True)
            # A word that is no token at all, such as a lone accent, is told from no state.
            token_less = np.setdiff1d(np.arange(len(example.words)), of_word)
            rows.blank += [example.words[place] for place in token_less]
            rows.lost += len(example.words) - len(words) - len(token_less)
            rows.cut += len(encoding.ids) > room
            rows.add(number, filled(rows.template, ids, None), ())
            tags = [numbers[tag] for tag in example.tags] or [-1] * len(example.words)
            places = np.full(len(example.words), -1, dtype=np.int64)
            places[words] = firsts + len(rows.template.before[0])
            rows.words.append(places)
            rows.tags.append(np.asarray(tags, dtype=np.int64))


def _keeps_spaces(vocabulary: Vocabulary) -> bool:
    """Whether a space before a word is part of its tokens, as in byte-level vocabularies."""
    alone, spaced = (
        vocabulary.tokenizer.encode(text, add_special_tokens=False).ids for text in ("a", " a")
    )
    return alone != spaced


def _as_in_text(words: Sequence[str], spaced: bool) -> list[str]:
    """Words of which each but the first has the space before it, where that tells them."""
    return [f" {word}" if spaced and number else word for number, word in enumerate(words)]


def _windows(task: AnyTask, examples: Sequence[Example], rows: _Rows) -> None:
    """The question, cut, and a window of the passage, as many as it takes to read all of it."""
    assert isinstance(task, Squad | Read)
    found = [e for e in examples if isinstance(e, Asked)]
    passages = list(dict.fromkeys(e.passage for e in found))
    encoded = dict(zip(passages, _encodings(rows.vocabulary, passages), strict=True))
    tokens = {
        passage: (
            np.asarray(encoding.ids, dtype=np.int32),
            np.asarray(encoding.offsets, dtype=np.int32).reshape(-1, 2),
        )
        for passage, encoding in encoded.items()
    }
    questions = _ids(rows.vocabulary, [e.question for e in found])
    for number, (example, question) in enumerate(zip(found, questions, strict=True)):
        ids, offsets = tokens[example.passage]
        asked = question[: task.question]
        rows.asked_cut += len(question) > len(asked)
        room = max(1, rows.room(2) - len(asked))
        first, last = _answer_tokens(example, offsets)
        lead = len(rows.template.before[0]) + len(asked) + len(rows.template.between[0])
        start, told = 0, False
        while True:
            end = min(start + room, len(ids))
            inside = start <= first and last < end and first >= 0
            told |= inside
            target = (lead + first - start, lead + last - start) if inside else (0, 0)
            outside = np.full((lead, 2), -1, dtype=np.int32)
            behind = np.full((len(rows.template.behind[0]), 2), -1, dtype=np.int32)
            rows.add(
                number,
                filled(rows.template, asked, ids[start:end].tolist()),
                (float(target[0]), float(target[1])),
                np.concatenate([outside, offsets[start:end], behind]),
                first=start,
            )
            if end == len(ids):
                break
            start += min(room, task.stride)
        rows.lost += bool(example.answers) and not told


def _answer_tokens(example: Asked, offsets: NDArray[np.int32]) -> tuple[int, int]:
    """First and last token of the first answer given; -1 where there is none."""
    if not example.answers:
        return -1, -1
    text, begin = example.answers[0]
    first = int(np.searchsorted(offsets[:, 1], begin, side="right"))
    last = int(np.searchsorted(offsets[:, 0], begin + len(text), side="left")) - 1
    return (first, last) if first <= last < len(offsets) else (-1, -1)


def _fit(
    first: list[int], second: list[int] | None, room: int
) -> tuple[list[int], list[int] | None]:
    """Both in so many tokens: the longer loses its last one again and again (BERT)."""
    if second is None:
        return first[:room], None
    over = len(first) + len(second) - room
    if over <= 0:
        return first, second
    # Down to the length of the other first, then in turn, the second text before the first.
    a, b = len(first), len(second)
    take_a, take_b = min(over, max(0, a - b)), min(over, max(0, b - a))
    left = over - take_a - take_b
    take_b, take_a = take_b + -(-left // 2), take_a + left // 2
    return first[: max(0, a - take_a)], second[: max(0, b - take_b)]


def _ids(vocabulary: Vocabulary, texts: Sequence[str]) -> list[list[int]]:
    """The token ids of texts, without special ones; equal texts are read once."""
    unique = list(dict.fromkeys(texts))
    found: dict[str, list[int]] = {}
    for at in range(0, len(unique), AT_ONCE):
        part = unique[at : at + AT_ONCE]
        encodings = vocabulary.tokenizer.encode_batch_fast(part, add_special_tokens=False)
        found.update(zip(part, (encoding.ids for encoding in encodings), strict=True))
    return [found[text] for text in texts]


def _encodings(vocabulary: Vocabulary, texts: Sequence[str]) -> list[Encoding]:
    return [
        encoding
        for at in range(0, len(texts), AT_ONCE)
        for encoding in vocabulary.tokenizer.encode_batch(
            list(texts[at : at + AT_ONCE]), add_special_tokens=False
        )
    ]
