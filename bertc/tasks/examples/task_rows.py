"""Rows of a task's examples: token ids, cut to fit and laid end to end, targets, and owners.

Axes: r rows, t tokens of all rows, w words of all rows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from bertc.base.diagnostics import as_data_error, several
from bertc.ir.learning import AnyTask, Embed
from bertc.tasks.layouts.example import Examples
from bertc.text.rows.index import overhangs
from bertc.text.vocab.vocabulary import FAILS, Vocabulary

Ends = tuple[tuple[int, ...], tuple[int, ...]]
"""Token ids and segment ids of consecutive special tokens."""
MATCHED, ATTENDED = 1, 2
"""Uses of a token whose text has vectors of tokens."""
TEXTS_AT_ONCE = 4096
"""Texts in a batch of the tokenizer."""
MOST_UNKNOWN = 0.01
"""The share of unknown tokens above which there is a remark."""


@dataclass(frozen=True)
class Template:
    """A template ``before`` A ``after``, or ``before`` A ``between`` B ``behind``."""

    before: Ends
    after: Ends
    between: Ends
    behind: Ends
    second: int

    def specials(self, texts: int) -> int:
        """The number of special tokens around 1 or 2 texts."""
        ends = (self.before, self.after) if texts == 1 else (self.before, self.between, self.behind)
        return sum(len(ids) for ids, _ in ends)


def template_of(vocabulary: Vocabulary) -> Template:
    """The template of a tokenizer."""
    tokenizer = vocabulary.tokenizer
    with as_data_error(*FAILS):
        single, pair = tokenizer.encode("a"), tokenizer.encode("a", "b")
    (before, after), (_, rest), (_, behind) = _around(single, 0), _around(pair, 0), _around(pair, 1)
    length = len(rest[0]) - len(behind[0]) - pair.sequence_ids.count(1)
    between = (rest[0][:length], rest[1][:length])
    return Template(before, after, between, behind, pair.type_ids[pair.sequence_ids.index(1)])


def _around(encoding: Encoding, number: int) -> tuple[Ends, Ends]:
    ids, segments, texts = encoding.ids, encoding.type_ids, encoding.sequence_ids
    first, end = texts.index(number), len(texts) - texts[::-1].index(number)
    before, after = (ids[:first], segments[:first]), (ids[end:], segments[end:])
    return (tuple(before[0]), tuple(before[1])), (tuple(after[0]), tuple(after[1]))


def fill_template(
    template: Template, first: Sequence[int], second: Sequence[int] | None
) -> list[tuple[Sequence[int], Sequence[int]]]:
    """Put one text or two into the template: token ids and segment ids, part by part."""
    first_part = first, [0] * len(first)
    if second is None:
        return [template.before, first_part, template.after]
    second_part = second, [template.second] * len(second)
    return [template.before, first_part, template.between, second_part, template.behind]


@dataclass(frozen=True, eq=False)
class TaskRows:
    """Rows of examples end to end: one for each example, choice, or window of a passage.

    ``targets``: the label, score or right choice of each row's example; for spans the first and
    last token of the answer, both 0 if it is not in the window. Unknown labels are -1, unknown
    scores nan.

    Of vectors of tokens ``uses`` says of each token whether it has one, and is attended to.

    ``num_cut`` examples lost text to the length of a row, ``num_windowed`` are in windows, those of
    ``num_narrow`` shorter than the question. ``num_questions_cut`` lost some of their question to
    its own limit. ``num_unread`` answers are in no window; words, not in their row. ``unknown`` is
    the share of tokens that are. ``again`` makes other rows of some examples for a seed and a step.
    """

    token_ids: NDArray[np.int32]  # (t,)
    segment_ids: NDArray[np.uint8]  # (t,)
    begins: NDArray[np.int64]  # (r + 1,)
    owners: NDArray[np.int64]  # (r,) index of the example
    targets: NDArray[np.float64]  # (r, 1), of spans (r, 2), of tags (r, 0), of several (r, c)
    exists: NDArray[np.bool_]  # (r,) False for a choice that the example lacks
    words: NDArray[np.int64]  # (w,) the first token of each word, within its row
    word_begins: NDArray[np.int64]  # (r + 1,)
    tags: NDArray[np.int64]  # (w,) -1 if unknown
    offsets: NDArray[np.int32]  # (t, 2) characters of the passage, -1 elsewhere; for spans only
    firsts: NDArray[np.int64]  # (r,) for spans, the first passage token of the window
    uses: NDArray[np.uint8]  # (t,) of vectors of tokens: a bit of ``MATCHED``, of ``ATTENDED``
    cls_last: bool
    seq: int  # the most tokens of a row
    again: Callable[[Iterable[int], int, int], "TaskRows"] | None = None
    num_cut: int = 0
    num_questions_cut: int = 0
    num_unread: int = 0
    num_windowed: int = 0
    num_narrow: int = 0
    unknown: float = 0.0

    @property
    def notes_on_unknown(self) -> list[str]:
        """A remark where tokens of more than ``MOST_UNKNOWN`` of the text are unknown."""
        says = f"{self.unknown:.1%} of the tokens are unknown to the vocabulary"
        return [says] if self.unknown > MOST_UNKNOWN else []

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of tokens of each row (r,)."""
        return np.diff(self.begins)


class RowBuilder:
    """A builder of ``TaskRows``, with rows of at most ``seq`` tokens."""

    def __init__(
        self, vocabulary: Vocabulary, seq: int, segments: int, spans: bool, causal: bool
    ) -> None:
        self.vocabulary, self.seq, self._spans = vocabulary, seq, spans
        self._last = causal or vocabulary.cls_last
        self.template = template_of(vocabulary)
        self._last_segment = max(0, segments - 1)
        self._ids: list[NDArray[np.int32]] = []
        self._segments: list[NDArray[np.uint8]] = []
        self._offsets: list[NDArray[np.int32]] = []
        self.owners: list[int] = []
        self.targets: list[tuple[float, ...]] = []
        self.exists: list[bool] = []
        self.firsts: list[int] = []
        self.uses: list[NDArray[np.uint8]] = []
        self.words: list[NDArray[np.int64]] = []
        self.tags: list[NDArray[np.int64]] = []
        self.num_cut = self.num_questions_cut = self.num_unread = 0
        self.num_windowed = self.num_narrow = 0

    def fresh(self) -> "RowBuilder":
        """A builder of rows like these that has none."""
        segments, causal = self._last_segment + 1, self._last
        return RowBuilder(self.vocabulary, self.seq, segments, self._spans, causal)

    def add(
        self,
        owner: int,
        texts: tuple[Sequence[int], Sequence[int] | None],
        target: tuple[float, ...],
        offsets: NDArray[np.int32] | None = None,
        exists: bool = True,
        first: int = 0,
        filled: Sequence[int] = (),
    ) -> None:
        """Add a row of the token ids of one text or two, special tokens around, then ``filled``."""
        parts = [*fill_template(self.template, *texts), (filled, [0] * len(filled))]
        ids, segments = zip(*parts, strict=True)
        segment = np.concatenate([np.asarray(part, dtype=np.uint8) for part in segments])
        self._ids.append(np.concatenate([np.asarray(part, dtype=np.int32) for part in ids]))
        self._segments.append(np.minimum(segment, self._last_segment).astype(np.uint8))
        if self._spans:
            assert offsets is not None, "a window knows its passage"
            self._offsets.append(offsets)
        self.owners.append(owner)
        self.targets.append(target)
        self.exists.append(exists)
        self.firsts.append(first)

    def max_tokens(self, texts: int) -> int:
        """The tokens of 1 or 2 texts that fit in a row with the special ones."""
        return self.seq - self.template.specials(texts)

    def finish(self) -> TaskRows:
        """The rows added so far."""
        rows = len(self._ids)
        empty = np.zeros(0, dtype=np.int64)
        ids = np.concatenate([*self._ids, np.zeros(0, np.int32)])
        counts = [len(words) for words in self.words] or [0] * rows
        return TaskRows(
            ids,
            np.concatenate([*self._segments, np.zeros(0, np.uint8)]),
            np.cumsum([0, *map(len, self._ids)], dtype=np.int64),
            np.asarray(self.owners, dtype=np.int64),
            np.asarray(self.targets, dtype=np.float64).reshape(rows, -1 if rows else 0),
            np.asarray(self.exists, dtype=np.bool_), np.concatenate([*self.words, empty]),
            np.cumsum([0, *counts], dtype=np.int64), np.concatenate([*self.tags, empty]),
            np.concatenate([*self._offsets, np.zeros((0, 2), np.int32)]),
            np.asarray(self.firsts, dtype=np.int64),
            np.concatenate([*self.uses, np.zeros(0, np.uint8)]), self._last, self.seq, None,
            self.num_cut, self.num_questions_cut, self.num_unread, self.num_windowed,
            self.num_narrow, float((ids == self.vocabulary.unk).sum() / max(1, len(ids))),
        )  # fmt: skip


def fitted(
    first: list[int], second: list[int] | None, rows: RowBuilder
) -> tuple[list[int], list[int] | None]:
    """Truncate a text, or a pair token by token from the longer text (BERT), to fit in a row."""
    if second is None:
        return cut(first, rows.max_tokens(1), rows), None
    a, b = len(first), len(second)
    from_a, from_b = map(int, overhangs(np.array(a), np.array(b), rows.max_tokens(2)))
    return cut(first, a - from_a, rows), cut(second, b - from_b, rows)


def cut(ids: list[int], count: int, rows: RowBuilder) -> list[int]:
    """The first ``count`` tokens, or the last where the tokenizer truncates on the left."""
    count = min(len(ids), max(0, count))
    at_end = rows.vocabulary.passed_on.get("truncation_side") == "left"
    return ids[len(ids) - count :] if at_end else ids[:count]


def encodings_of(
    encode: Callable[..., list[Encoding]], texts: Sequence[str | list[str]], **how: bool
) -> Iterator[Encoding]:
    """The encodings of texts without special tokens; ``is_pretokenized``: of lists of words."""
    for first in range(0, len(texts), TEXTS_AT_ONCE):
        part = texts[first : first + TEXTS_AT_ONCE]
        with as_data_error(*FAILS):
            encodings = encode(part, add_special_tokens=False, **how)
        yield from encodings


def ids_of(vocabulary: Vocabulary, texts: Sequence[str]) -> list[list[int]]:
    """The token ids of texts, without special ones; equal texts are encoded once."""
    unique = list(dict.fromkeys(texts))
    encodings = encodings_of(vocabulary.tokenizer.encode_batch_fast, unique)
    ids_by_text = {text: e.ids for text, e in zip(unique, encodings, strict=True)}
    return [ids_by_text[text] for text in texts]


def notes_on_shared(learned: Examples, parts: Mapping[str, Examples]) -> list[str]:
    """Remarks on rows without text, and on rows of parts that are training rows too."""
    rows, notes = {replace(example, key="") for example in learned}, list[str]()
    if count := sum(not "".join(getattr(row, "texts", "a text")).strip() for row in learned):
        notes.append(f"{count:,} of {len(learned):,} training examples have no text")
    for part, examples in parts.items():
        if count := sum(replace(example, key="") in rows for example in examples):
            notes.append(
                f"{count:,} of {len(examples):,} {part} examples are training examples too, so "
                "that their scores are too high; take them out of one of the two files"
            )
    return notes


def notes_on_cuts(task: AnyTask, rows: TaskRows, count: int, name: str, seq: int) -> list[str]:
    """Remarks on what is cut of ``count`` examples of a part, with the limit."""
    notes, among = [], f"of {count:,} {name}examples"
    if rows.num_questions_cut:
        limit = getattr(task, "question", 0)
        what = "questions" if task.answer.kind == "span" else "questions with a choice"
        cut = f"{rows.num_questions_cut:,} {among}"
        notes.append(f"the {what} of {cut} are cut to {limit} tokens (question=)")
    if rows.num_cut:
        may_window = name == "training " and getattr(task, "stride", 1) == 0
        window = "; stride= reads them in windows" if may_window else ""
        limit = min(seq, isinstance(task, Embed) and task.longest or seq)
        notes.append(f"{rows.num_cut:,} {among} are cut to {limit} tokens{window}")
    if rows.num_windowed:
        passes = -(-len(rows.owners) // max(1, count))
        enough = f"; epochs={passes} reads all of them" if name == "training " else ""
        read = f"{rows.num_windowed:,} {among} are read in windows: {len(rows.owners):,} rows"
        notes.append(f"{read}{enough}")
    if rows.num_narrow:
        notes.append(
            f"the windows of {rows.num_narrow:,} {among} are shorter than their question: a longer "
            f"seq or less than question={getattr(task, 'question', 0)} leaves them more room"
        )
    if rows.num_unread and task.answer.kind == "span":
        notes.append(
            f"the answers of {rows.num_unread:,} {among} stand in no window as a whole: a longer "
            "seq has longer windows, a smaller stride more of them"
        )
    elif rows.num_unread:
        word = "letter" if getattr(task, "letters", False) else "word"
        lost = f"{several(rows.num_unread, word)} {among} have no token in a row of {seq}"
        notes.append(f"{lost}, and are {'left out' if name == 'training ' else 'answered unread'}")
    return [*notes, *(f"{name}examples: {note}" for note in rows.notes_on_unknown)]
