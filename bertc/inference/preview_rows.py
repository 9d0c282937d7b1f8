"""One row of text as a person reads it: its tokens, and what each term asks of them."""

import textwrap
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import assert_never

from bertc.data import RawBatch, Vocabulary
from bertc.ir.learning.objective import Clm, Mlm, Nsp, Objective, Plm, Rtd, Sbo, Sop, Tlm
from bertc.ir.learning.task import Task
from bertc.ir.program.resolved import Stage
from bertc.ir.terms.pairs import PairTerm
from bertc.objectives import Columns

WIDTH = 100
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def row_text(
    title: str,
    stage: Stage,
    vocabulary: Vocabulary,
    columns: Columns,
    batch: RawBatch,
    row: int,
    color: bool,
) -> str:
    """One row: a paragraph a segment of each of its examples, then what is asked about it."""
    shown = _Row(stage, vocabulary, columns, batch, row)
    starts = [start for start in batch.starts[row].tolist() if start < stage.seq]
    backward = ", read from its end to its beginning" if batch.backward[row] else ""
    lines = [f"{title}, {shown.length} tokens{_count(len(starts), stage)}{backward}"]
    for nth, (start, end) in enumerate(pairwise([*starts, shown.length])):
        lines += _paragraphs(shown, start, end, color)
        lines += [
            f"  {asked.kind}: {(label := int(batch.pair_labels[row, nth]))}, {asked.answers[label]}"
            for asked in (term.objective for term in stage.objective)
            if isinstance(asked, PairTerm)
        ]
    return "\n".join([*lines, *(line for t in stage.objective for line in shown.told(t.objective))])


def _paragraphs(shown: "_Row", start: int, end: int, color: bool) -> list[str]:
    """An example of a row, what is asked of its tokens beside them."""
    paragraphs: dict[int, list[str]] = {}
    segments = shown.batch.segment_ids[shown.row].tolist()
    for at in range(start, end):
        word = _token(shown.vocabulary, shown.seen[at])
        beside = None
        if at in shown.asked:
            beside = f"«{word}→{_token(shown.vocabulary, shown.original[at])}»"
        elif at in shown.turns:
            beside = f"«{shown.turns[at]}→{word}»"
        if beside is not None:
            word = f"{_BOLD}{beside}{_PLAIN}" if color else beside
        paragraphs.setdefault(int(segments[at]), []).append(word)
    names = [chr(ord("A") + segment) if len(paragraphs) > 1 else " " for segment in paragraphs]
    return [
        _wrapped(f"  {name} ", " ".join(words))
        for name, words in zip(names, paragraphs.values(), strict=True)
    ]


@dataclass(frozen=True)
class _Row:
    """A row of a batch, and what the terms of its stage ask of it."""

    stage: Stage
    vocabulary: Vocabulary
    columns: Columns
    batch: RawBatch
    row: int

    @cached_property
    def seen(self) -> list[int]:
        """Token ids as they are read first."""
        first = self.columns.masked or self.columns.reading  # the encoder reads after a generator
        found: list[int] = first.token_ids[self.row].tolist()
        return found

    @cached_property
    def original(self) -> list[int]:
        """Token ids of the text."""
        found: list[int] = self.columns.originals[self.row].tolist()
        return found

    @cached_property
    def asked(self) -> set[int]:
        """Positions whose token is to be predicted or is replaced."""
        return _asked(self.columns, self.row)

    @cached_property
    def turns(self) -> dict[int, int]:
        """Positions whose tokens are told one after another, and their turns."""
        return _turns(self.columns, self.row)

    @property
    def length(self) -> int:
        """Tokens without padding."""
        return int(self.batch.lengths[self.row])

    def told(self, objective: Objective) -> list[str]:
        """The lines on what one term asks of the whole row."""
        columns, row, length = self.columns, self.row, self.length
        translated = columns.translated is not None and bool(columns.translated[row])
        match objective:
            case Mlm() | Tlm():
                if translated != isinstance(objective, Tlm):
                    return []  # the rows of another term
                mask = self.vocabulary.mask
                counted = _counted(self.seen, self.original, self.asked, mask, length)
                return [f"  {objective.kind}: {counted}"]
            case Clm():
                assert columns.clm is not None, "clm without its columns"
                predicted = int(columns.clm.weights[row].sum())
                return [f"  clm: {predicted} tokens told from those before"]
            case Plm():
                part = len(self.turns) / length
                return [
                    f"  plm: {len(self.turns)} of {length} tokens ({part:.1%}), each told from "
                    "those of lower numbers and all without one"
                ]
            case Sbo():
                return [_boundaries(self.vocabulary, columns, row, self.original)]
            case Rtd():
                assert columns.rtd is not None, "rtd without its columns"
                judged, guessed = int(columns.rtd.judged[row].sum()), columns.masked is not None
                return [f"  {_replaced(self.seen, self.original, self.asked, judged, guessed)}"]
            case Nsp() | Sop():
                return []  # asked of each example
            case Task():
                raise AssertionError("a task's rows are shown as examples")
            case unreachable:
                assert_never(unreachable)


def _count(examples: int, stage: Stage) -> str:
    return f", {examples} examples" if stage.pack else ""


def _turns(columns: Columns, row: int) -> dict[int, int]:
    """Positions of a row whose tokens are told one after another, and their turns, from 1."""
    order, told = columns.reading.order, columns.plm
    if order is None or told is None:
        return {}
    slots = zip(told.positions[row].tolist(), told.weights[row].tolist(), strict=True)
    places = order.rank[row].tolist()
    found = sorted((at for at, weight in slots if weight), key=lambda at: places[at])
    return {at: turn for turn, at in enumerate(found, 1)}


def _asked(columns: Columns, row: int) -> set[int]:
    """Positions of a row whose token is to be predicted or is replaced."""
    chosen = columns.mlm or columns.rtd
    if chosen is None:
        return set()
    pairs = zip(chosen.positions[row].tolist(), chosen.weights[row].tolist(), strict=True)
    return {at for at, weight in pairs if weight}


def _counted(seen: list[int], original: list[int], asked: set[int], mask: int, length: int) -> str:
    masked = sum(seen[at] == mask for at in asked)
    kept = sum(seen[at] == original[at] for at in asked)
    return (
        f"{len(asked)} of {length} tokens ({len(asked) / length:.1%}): "
        f"{masked} masked, {len(asked) - masked - kept} random, {kept} kept"
    )


def _replaced(
    seen: list[int], original: list[int], asked: set[int], judged: int, guessed: bool
) -> str:
    other = sum(seen[at] != original[at] for at in asked)
    what = f"{len(asked)} by a generator's guesses" if guessed else f"{other} by another"
    return f"rtd: asked of {judged} tokens, which of them are replaced: {what}"


def _boundaries(vocabulary: Vocabulary, columns: Columns, row: int, original: list[int]) -> str:
    """The spans that are told from the two tokens around them."""
    assert columns.sbo is not None, "asked only where there are boundaries"
    sbo = columns.sbo
    spans: dict[tuple[int, int], list[str]] = {}
    slots = zip(
        sbo.left[row].tolist(), sbo.right[row].tolist(), sbo.weights[row].tolist(), strict=True
    )
    for slot, (left, right, weight) in enumerate(slots):
        if weight:
            target = _token(vocabulary, int(sbo.targets[row, slot]))
            spans.setdefault((left, right), []).append(target)
    told = (
        f"{_token(vocabulary, original[left])} ({' '.join(words)}) "
        f"{_token(vocabulary, original[right])}"
        for (left, right), words in spans.items()
    )
    return _wrapped("  sbo: ", "; ".join(told) or "no span has a token on both sides")


def _token(vocabulary: Vocabulary, token_id: int) -> str:
    """The piece as text: byte-level pieces are decoded, control characters shown escaped."""
    piece = vocabulary.tokenizer.id_to_token(token_id)
    if piece is None:
        return f"#{token_id}"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in piece)


def _wrapped(prefix: str, text: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=prefix,
        subsequent_indent=" " * len(prefix),
        break_long_words=False,
        break_on_hyphens=False,
    )
