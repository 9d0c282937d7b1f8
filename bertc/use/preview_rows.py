"""One row of text for a reader: its tokens, and the targets of each term."""

import textwrap
from itertools import pairwise

from bertc.base.diagnostics import several
from bertc.data.batches.batch import RawBatch
from bertc.data.vocab.vocabulary import Vocabulary
from bertc.ir.program.stage import Stage
from bertc.learn.objectives import MicroBatch, RowView, tensors_of

WIDTH = 100
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def row_text(
    title: str,
    stage: Stage,
    vocabulary: Vocabulary,
    micro_batch: MicroBatch,
    batch: RawBatch,
    row: int,
    color: bool,
) -> str:
    """A row as text: a paragraph per segment of each example, then the targets of each term."""
    # Networks after a sampled one read its guesses, so the first inputs are shown.
    first = micro_batch.masked or micro_batch.reading
    view = RowView(
        micro_batch, row, int(batch.lengths[row]), first.token_ids[row].tolist(),
        micro_batch.originals[row].tolist(), vocabulary.mask, vocabulary.readable,
    )  # fmt: skip
    terms = [(tensors_of(t.objective), micro_batch.terms[t.name]) for t in stage.objective]
    beside: dict[int, str] = {}
    for tensors, targets in terms:
        for at, turn in tensors.turns(targets, micro_batch, row).items():
            beside[at] = f"«{turn}→{view.token(view.seen[at])}»"
        for at in tensors.marks(targets, row):
            beside[at] = f"«{view.token(view.seen[at])}→{view.token(view.original[at])}»"
    if color:
        beside = {at: f"{_BOLD}{word}{_PLAIN}" for at, word in beside.items()}
    starts = [start for start in batch.starts[row].tolist() if start < stage.seq]
    backward = ", read from its end to its beginning" if batch.backward[row] else ""
    lines = [f"{title}, {view.length} tokens{_count(len(starts), stage)}{backward}"]
    segments = batch.segment_ids[row].tolist()
    for nth, (start, end) in enumerate(pairwise([*starts, view.length])):
        lines += _paragraphs(view, segments, range(start, end), beside)
        for tensors, targets in terms:
            lines += _lines(tensors.explain_example(targets, row, nth))
    for tensors, targets in terms:
        lines += _lines(tensors.explain(targets, view))
    return "\n".join(lines)


def _paragraphs(
    view: RowView, segments: list[int], places: range, beside: dict[int, str]
) -> list[str]:
    """The segments of one example, with the targets of its tokens."""
    paragraphs: dict[int, list[str]] = {}
    for at in places:
        word = beside.get(at) or view.token(view.seen[at])
        paragraphs.setdefault(segments[at], []).append(word)
    names = [chr(ord("A") + segment) if len(paragraphs) > 1 else " " for segment in paragraphs]
    return [
        _wrapped(f"  {name} ", " ".join(words))
        for name, words in zip(names, paragraphs.values(), strict=True)
    ]


def _lines(explained: list[tuple[str, str]]) -> list[str]:
    return [_wrapped(f"  {name}: ", text) for name, text in explained]


def _count(examples: int, stage: Stage) -> str:
    return f", {several(examples, 'example')}" if stage.pack else ""


def _wrapped(prefix: str, text: str) -> str:
    wrapper = textwrap.TextWrapper(WIDTH, prefix, " " * len(prefix), break_on_hyphens=False)
    wrapper.break_long_words = False
    return wrapper.fill(text)
