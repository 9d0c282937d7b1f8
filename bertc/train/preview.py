"""``bertc show-batch``: examples as the model is asked about them, for a person to read."""

import textwrap
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import assert_never

import torch

from bertc.data import RawBatch, TaskBatch, TaskData, TaskSet, Vocabulary, prepare
from bertc.data.task import cut, gather
from bertc.ir.answer import Choice, Labels, Score, Span, Tags
from bertc.ir.resolved import Resolved, Stage
from bertc.objectives import Columns, corrupt, mask_key
from bertc.storage.paths import cache_folder
from bertc.train.display import choose
from bertc.train.evaluation import named
from bertc.train.feed import to_inputs
from bertc.train.session import Watched
from bertc.train.stopping import Stop
from bertc.train.tables import vocabulary_tables

WIDTH = 100
LEGEND = (
    "«seen→asked»: the left token stands where the right one stood;\n"
    "mlm, tlm and plm have to name the right one, rtd to find the left one"
)
_BOLD, _PLAIN = "\x1b[1m", "\x1b[0m"


def preview(resolved: Resolved, examples: int, *, color: bool, cache: Path | None = None) -> str:
    """The first examples of every stage with their masks, segments and labels.

    Raises:
        DataError, MissingInputError: if the text cannot be read.
    """
    display = choose(quiet=False)
    with Stop() as stop:
        corpus = prepare(resolved, cache or cache_folder(), Watched(display, stop))
    display.close()
    device = torch.device("cpu")
    tables = vocabulary_tables(corpus.vocabulary, device)
    parts = [] if all(stage.tasks for stage in resolved.stages) else [LEGEND]
    for index, stage in enumerate(resolved.stages):
        data = corpus.stage(index)
        if isinstance(data, TaskData):
            parts.append(f"stage {stage.name}: {stage.batch} examples a step")
            parts += _examples(data, examples)
            continue
        batch = data.train(0, slice(0, examples))
        columns = corrupt(stage, to_inputs(batch, device), tables, mask_key(resolved.run.seed))
        parts.append(f"stage {stage.name}: {stage.format.kind}, rows of {stage.seq} tokens")
        parts += [
            _row(title, stage, corpus.vocabulary, columns, batch, row, color)
            for row, title in enumerate(_titles(resolved, batch))
        ]
    return "\n\n".join(parts)


def _examples(data: TaskData, examples: int) -> list[str]:
    """Rows of the first batch of every task, as they are read, and what is right."""
    shown = []
    for own in data.sets:
        alone = replace(data, sets=(own,))
        _, chosen = alone.drawn(0, slice(0, examples))
        (rows,) = cut(own.train.lengths, chosen, own.rows_an_example, len(own.train.owners))
        batch = gather(own.task, own.train, rows, data.vocabulary.pad)
        shown += [_example(data.vocabulary, own, batch, row) for row in range(len(batch.rows))]
    return shown


def _example(vocabulary: Vocabulary, own: TaskSet, batch: TaskBatch, row: int) -> str:
    tokens = [*map(vocabulary.token, batch.token_ids[row][batch.examples[row] > 0].tolist())]
    targets = batch.targets[row].astype(int).tolist()
    match own.task.answer:
        case Labels(names=names):
            right = names[targets[0]]
        case Score():
            right = f"{batch.targets[row, 0]:g}"
        case Choice(most=most):
            right = "this one" if row % most == targets[0] else "another one"
        case Tags(names=names):
            told = zip(batch.positions[row], targets, batch.weights[row] > 0, strict=True)
            right = " ".join(f"{tokens[at]}/{names[tag]}" for at, tag, asked in told if asked)
        case Span():
            ((first, last),) = targets
            right = " ".join(tokens[first : last + 1]) if first else "no answer in this window"
        case unreachable:
            assert_never(unreachable)
    shown = (f"{batch.task}: {' '.join(tokens)}", f"right: {right}")
    return "\n".join(textwrap.fill(line, WIDTH) for line in shown)


def _titles(resolved: Resolved, batch: RawBatch) -> list[str]:
    """Each row by its number, and its language if any has one."""
    tongues = [named(resolved.languages, *pair) for pair in batch.languages.tolist()]
    shown = [f" ({name})" if resolved.languages else "" for name in tongues]
    return [f"row {number}{name}" for number, name in enumerate(shown, 1)]


def _row(
    title: str,
    stage: Stage,
    vocabulary: Vocabulary,
    columns: Columns,
    batch: RawBatch,
    row: int,
    color: bool,
) -> str:
    """One row: a paragraph a segment of each of its examples, then what is asked about it."""
    first = columns.masked or columns.reading  # the encoder reads after a generator
    seen, original = first.token_ids[row].tolist(), columns.originals[row].tolist()
    length, asked = int(batch.lengths[row]), _asked(columns, row)
    turns = _turns(columns, row)
    segments = batch.segment_ids[row].tolist()
    starts = [start for start in batch.starts[row].tolist() if start < stage.seq]
    lines = [f"{title}, {length} tokens" + _count(len(starts), stage)]
    for nth, (start, end) in enumerate(pairwise([*starts, length])):
        paragraphs: dict[int, list[str]] = {}
        for at in range(start, end):
            word = _token(vocabulary, seen[at])
            if at in asked:
                word = f"«{word}→{_token(vocabulary, original[at])}»"
                word = f"{_BOLD}{word}{_PLAIN}" if color else word
            elif at in turns:
                word = f"«{turns[at]}→{word}»"
                word = f"{_BOLD}{word}{_PLAIN}" if color else word
            paragraphs.setdefault(int(segments[at]), []).append(word)
        for segment, words in paragraphs.items():
            name = "AB"[segment] if len(paragraphs) > 1 else " "
            lines.append(_wrapped(f"  {name} ", " ".join(words)))
        lines += [
            f"  {t.objective.kind}: {_answer(t.objective.kind, int(batch.pair_labels[row, nth]))}"
            for t in stage.objective
            if t.objective.kind in ("nsp", "sop")
        ]
    if columns.clm is not None:
        lines.append(f"  clm: {int(columns.clm.weights[row].sum())} tokens told from those before")
    if turns:
        lines.append(
            f"  plm: {len(turns)} of {length} tokens ({len(turns) / length:.1%}), each told from "
            "those of lower numbers and all without one"
        )
    if columns.mlm is not None:
        kind = "tlm" if columns.translated is not None and columns.translated[row] else "mlm"
        lines.append(f"  {kind}: " + _counted(seen, original, asked, vocabulary.mask, length))
    if columns.rtd is not None:
        judged = int(columns.rtd.judged[row].sum())
        lines.append(f"  {_replaced(seen, original, asked, judged, columns.masked is not None)}")
    if columns.sbo is not None:
        lines.append(_boundaries(vocabulary, columns, row, original))
    return "\n".join(lines)


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


def _answer(kind: str, label: int) -> str:
    right, wrong = {
        "nsp": ("B follows A", "B is from another document"),
        "sop": ("A and B in their order", "A and B swapped"),
    }[kind]
    return f"{label}, {wrong if label else right}"


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
