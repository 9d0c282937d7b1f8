"""``bertc show-batch``: training examples with masks and labels, as text."""

import textwrap
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import assert_never

import torch

from bertc.base.diagnostics import UsageError, escaped, listed, several
from bertc.base.storage.paths import cache_folder
from bertc.ir.learning import PRETRAINING, Choice, Labels, Score, Several, Span, Tags, Vector
from bertc.ir.learning.answer import NamedSpans
from bertc.ir.program import Resolved, Stage, TextStage
from bertc.ir.program.reading import part_over, rows_by_direction, split_rows
from bertc.learn.objectives import MicroBatch, RowView, corrupt, mask_key, tensors_of
from bertc.learn.step.feed import to_inputs, vocab_tensors
from bertc.machine import display, signals
from bertc.run.evaluation import held_out, word_networks
from bertc.run.evaluation.open_run import read_text
from bertc.run.records.folder import RunFolder
from bertc.tasks.corpus import prepare
from bertc.tasks.examples.task import TaskBatch, TaskData, TaskSet, cut, gather
from bertc.text.batches.arranged import TextData
from bertc.text.batches.batch import RawBatch
from bertc.text.vocab.vocabulary import Vocabulary

PREDICTING = listed(
    name
    for name, kind in PRETRAINING.items()
    if kind.fills == "masks" or (kind().replaces and kind.fills != "replaced")
)
DETECTING = listed(name for name, kind in PRETRAINING.items() if kind.fills == "replaced")
LEGEND = (
    "«seen→asked»: the left token is the input, the right one the original;\n"
    f"{PREDICTING} predict the right one, {DETECTING} detects the left one"
)

WIDTH = 100
BOLD, SAME = "\x1b[1m{}\x1b[0m", "{}"
RELATED = ("text", "positive", "negative")
"""The rows of an example of a task that embeds."""


def preview(
    resolved: Resolved,
    examples: int,
    *,
    color: bool,
    step: int | None = None,
    run: Path | None = None,
) -> str:
    """Examples of the first batch of every stage, or of a step, with masks, segments and labels.

    With ``run``, the folder of a run, its text is that which it was trained on.
    """
    if step is not None and step >= resolved.steps:
        raise UsageError(f"step {step:,} is none of {resolved.steps:,}, the first of which is 0")
    with display.watching(signals.AGAIN) as watched:
        if run:
            corpus = read_text(RunFolder(run), resolved, cache_folder(), watched)
        else:
            judges = word_networks.TrainedNetworks(resolved.run.device)
            corpus = prepare(resolved, cache_folder(), watched, judges)
    stages = resolved.stages if step is None else (resolved.stage_at(step),)
    parts = [LEGEND] if any(isinstance(stage, TextStage) for stage in stages) else []
    for stage in stages:
        data = corpus.stages[resolved.stages.index(stage)]
        nth = 0 if step is None else stage.first_batch + step - stage.first_step
        if isinstance(data, TaskData):
            parts.append(f"stage {stage.name}: {several(stage.batch, 'example')} a step")
            parts += _examples(data, examples, None if step is None else nth)
        else:
            parts.append(f"stage {stage.name}: {stage.format.kind}, rows of {stage.seq} tokens")
            parts += _rows(resolved, stage, data, slice(0, examples), nth, BOLD if color else SAME)
    return "\n\n".join(parts)


def _rows(
    resolved: Resolved, stage: Stage, data: TextData, rows: slice, step: int, style: str
) -> list[str]:
    """Rows of a batch of text, as the model reads them in training."""
    device, batch = torch.device("cpu"), data.train(step, rows)
    vocab, inputs = vocab_tensors(data.vocabulary, device), to_inputs(batch, device)
    tongues = [held_out.language_of(resolved.languages, *pair) for pair in batch.languages.tolist()]
    names = [f" ({name})" if resolved.languages else "" for name in tongues]
    titles = [escaped(f"row {number}{name}") for number, name in enumerate(names)]
    of_directions = rows_by_direction(stage, range(len(titles)))
    texts, key, part = {}, mask_key(resolved.run.seed), part_over(stage, step)
    for direction, numbers in zip(split_rows(stage), of_directions, strict=True):
        micro_batch = corrupt(direction, inputs, vocab, key, part)
        for row in numbers:
            drawn = direction, data.vocabulary, micro_batch, batch, row, style
            texts[row] = _row_text(titles[row], *drawn)
    return [texts[row] for row in sorted(texts)]


def _examples(data: TaskData, examples: int, step: int | None) -> list[str]:
    """Rows of the first batch of every task, or of that of a step, with the correct answers."""
    texts, rows_shown = [], slice(0, examples)
    firsts = [replace(data, sets=(task_set,)).drawn(0, rows_shown) for task_set in data.sets]
    for task_set, chosen in firsts if step is None else [data.drawn(step, rows_shown)]:
        train = task_set.train
        (rows,) = cut(train.lengths, chosen, task_set.rows_an_example, len(train.owners))
        batch = gather(task_set.task, train, rows, data.vocabulary.pad)
        texts += [_example(data.vocabulary, task_set, batch, row) for row in range(len(rows))]
    return texts


def _example(vocabulary: Vocabulary, task_set: TaskSet, batch: TaskBatch, row: int) -> str:
    ids = batch.token_ids[row][batch.examples[row] > 0].tolist()
    tokens = [*map(vocabulary.readable, ids)]
    targets = batch.targets[row].astype(int).tolist()
    match task_set.task.answer:
        case Labels(names=names):
            right = names[targets[0]]
        case Several(names=names):
            right = listed([n for n, yes in zip(names, targets[0], strict=True) if yes]) or "none"
        case Score():
            right = ", ".join(f"{number:g}" for number in batch.targets[row, 0].flat)
        case Choice(most=most):
            right = "this choice" if row % most == targets[0] else "another choice"
        case Tags(names=names):
            words = zip(batch.positions[row], targets, batch.weights[row] > 0, strict=True)
            right = _tagged(vocabulary, ids, {p: names[tag] for p, tag, ask in words if ask})
        case NamedSpans(widest=widest):
            at = batch.positions[row].tolist()
            marked = ((n, *divmod(code - 1, widest)) for n, code in enumerate(targets) if code)
            named = (
                f"{' '.join(tokens[i] for i in at[n : n + width + 1])}/{tokens[at[name] + 1]}"
                for n, name, width in marked
            )
            right = ", ".join(named) or "no spans"
        case Span():
            ((first, last),) = targets
            right = " ".join(tokens[first : last + 1]) if first else "no answer in this window"
        case Vector(texts=texts, scored=scored):
            right = f"{RELATED[row % texts]} of example {row // texts}"
            right += f", score {batch.targets[row, 0]:g}" if scored else ""
        case unreachable:
            assert_never(unreachable)
    lines = (f"{batch.task}: {' '.join(tokens)}", f"label: {right}")
    return "\n".join(textwrap.fill(escaped(line), WIDTH) for line in lines)


def _tagged(vocabulary: Vocabulary, ids: list[int], tags: dict[int, str]) -> str:
    """The words of a row, each with the tag of its first token."""
    words = []
    for place, after in pairwise([*sorted(tags), len(ids)]):
        token_ids = [
            token_id
            for token_id in ids[place:after]
            if token_id == vocabulary.unk or not vocabulary.special[token_id]
        ]
        word = vocabulary.tokenizer.decode(token_ids, skip_special_tokens=False).strip()
        words.append(f"{word}/{tags[place]}")
    return " ".join(words)


def _row_text(
    title: str,
    stage: Stage,
    vocabulary: Vocabulary,
    micro_batch: MicroBatch,
    batch: RawBatch,
    row: int,
    style: str,
) -> str:
    """A row as text: a paragraph per segment of each example, then the targets of each term."""
    # Networks after a sampled one read its guesses, so the first inputs are shown.
    first = micro_batch.masked or micro_batch.reading
    view = RowView(
        micro_batch, row, int(batch.lengths[row]), first.token_ids[row].tolist(),
        micro_batch.originals[row].tolist(), vocabulary.mask, vocabulary.readable,
    )  # fmt: skip
    terms = [(tensors_of(t.objective), micro_batch.terms[t.name]) for t in stage.objective]
    marks: dict[int, str] = {}
    for tensors, targets in terms:
        for place, turn in tensors.turns(targets, micro_batch, row).items():
            marks[place] = style.format(f"«{turn}→{view.token(view.seen[place])}»")
        for place in tensors.marks(targets, row):
            both = f"«{view.token(view.seen[place])}→{view.token(view.original[place])}»"
            marks[place] = style.format(both)
    starts = [start for start in batch.starts[row].tolist() if start < stage.seq]
    backward = ", read from its end to its beginning" if batch.backward[row] else ""
    packed = f", {several(len(starts), 'example')}" if stage.pack else ""
    lines = [f"{title}, {view.length} tokens{packed}{backward}"]
    segments = batch.segment_ids[row].tolist()
    for nth, (start, end) in enumerate(pairwise([*starts, view.length])):
        lines += _paragraphs(view, segments, range(start, end), marks)
        for tensors, targets in terms:
            explained = tensors.explain_example(targets, row, nth)
            lines += [_indent(f"  {name}: ", text) for name, text in explained]
    for tensors, targets in terms:
        lines += [_indent(f"  {name}: ", text) for name, text in tensors.explain(targets, view)]
    return "\n".join(lines)


def _paragraphs(view: RowView, parts: list[int], places: range, notes: dict[int, str]) -> list[str]:
    """The segments of one example, with the targets of its tokens."""
    paragraphs: dict[int, list[str]] = {}
    for place in places:
        word = notes.get(place) or view.token(view.seen[place])
        paragraphs.setdefault(parts[place], []).append(word)
    names = [chr(ord("A") + segment) if len(paragraphs) > 1 else " " for segment in paragraphs]
    pairs = zip(names, paragraphs.values(), strict=True)
    return [_indent(f"  {name} ", " ".join(words)) for name, words in pairs]


def _indent(prefix: str, text: str) -> str:
    wrapper = textwrap.TextWrapper(WIDTH, prefix, " " * len(prefix), break_on_hyphens=False)
    wrapper.break_long_words = False
    return wrapper.fill(text)
