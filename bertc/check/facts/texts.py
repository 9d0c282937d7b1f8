"""Facts of text without reading it: sizes of files, manifests of prepared text."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from math import log
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

from bertc.base.cores import available_cores
from bertc.base.diagnostics import DataError, Diagnostic, Diagnostics, MissingInputError, Span
from bertc.base.diagnostics.errors import MissingColumnError
from bertc.base.storage.files import is_address
from bertc.base.storage.paths import is_file
from bertc.base.storage.place import FolderAt
from bertc.cost import Estimate
from bertc.cost.figures import DataEstimate
from bertc.cost.machines.device import LOADED_TOKENS
from bertc.ir.data import Corpus, Docstrings, Fasta, Hf, Prepared, file_names
from bertc.ir.learning import Many, Term
from bertc.ir.learning.answer import BalancedLoss, label_names
from bertc.ir.learning.task import UNKNOWN, OwnTask, Task
from bertc.ir.program import Complete, Given, Resolved, Stage, TaskStage
from bertc.ir.vocabulary import TokenizerFile, Vocabulary

PREPARED_BYTES = 2.5e6
"""Bytes of text that a core of an EPYC prepares in a second.

Measured on 39 English books, with vocabularies of 30,522 by WordPiece and 32,000 by BPE."""
BYTES_A_TOKEN, TOKENS_A_SENTENCE = 4.6, 28
"""Means of the same text."""


class TextFacts(NamedTuple):
    """Sizes of a text; ``counted`` tokens are those of prepared text, others a guess.

    Of ``remote`` text each machine has a cache of ``cache_bytes``, 0 for all of it, and the parts
    of two windows, ``window_bytes``, in any case.
    """

    name: str
    text_bytes: int
    tokens: int
    sentences: int
    id_bytes: int
    counted: bool
    remote: bool = False
    cache_bytes: int = 0
    window_bytes: int = 0

    @property
    def prepared_bytes(self) -> int:
        """Bytes of the text as it is prepared: ids, and 8 for the start of each sentence."""
        return self.id_bytes * self.tokens + 8 * self.sentences


WeightedText = tuple[float, TextFacts]
"""A text with its weight: rows are drawn in proportion to weight x tokens."""
StageTexts = tuple[int, float, Sequence[WeightedText] | None]
"""Tokens that a stage reads, its seconds, and its texts; None: not known."""


def look_at_text(program: Complete, diagnostics: Diagnostics) -> None:
    """Decode the beginnings of the files of text that a program names, and find their columns."""
    from bertc.text.sources.opening import open_source
    from bertc.text.sources.source import all_of

    def look(corpus: Corpus, span: Span | None) -> list[tuple[Sequence[DataError], Span | None]]:
        names = [name for name, _ in file_names(corpus)]
        here = names and not any(map(is_address, names))
        return [(open_source(corpus).remarks, span)] if here else []

    spans = {s.corpus: stage.span("data") for stage in program.stages for s in stage.data}
    for errors, span in all_of(partial(look, *text) for text in spans.items()):
        remark_on(errors, span, diagnostics)


def remark_on(text: Sequence[DataError], span: Span | None, diagnostics: Diagnostics) -> None:
    """Remark what is wrong with text though it can be read."""
    for error in text:
        diagnostics.remark(Diagnostic("R129", error.message, span, help=error.help))


def add_texts(estimates: list[Estimate], programs: Sequence[Resolved]) -> list[Estimate]:
    """Add the sizes of texts to the estimates of programs."""
    look = cache(_look_at_one)
    return [
        _with_texts(estimate, [_weigh_texts(stage, program, look) for stage in program.stages])
        for estimate, program in zip(estimates, programs, strict=True)
    ]


def _with_texts(estimate: Estimate, texts: list[Sequence[WeightedText] | None]) -> Estimate:
    if not any(texts):
        return estimate
    processes = estimate.spread.devices if estimate.spread else 1
    pairs = [*zip(estimate.stages, texts, strict=True)]
    read = [(s.steps * s.batch * s.seq, s.time.seconds_total, weighted) for s, weighted in pairs]
    stages = (
        stage._replace(data=data_of([reading], processes))
        for stage, reading in zip(estimate.stages, read, strict=True)
    )
    return replace(estimate, stages=tuple(stages), data=data_of(read, processes))


def _weigh_texts(
    stage: Stage, program: Resolved, look: Callable[[Corpus, int], TextFacts | None]
) -> list[WeightedText] | None:
    """The texts of a stage with their weights; None where a look does not tell all of them."""
    shares = () if isinstance(stage, TaskStage) else stage.data
    id_bytes = 2 if program.vocabulary.size <= 1 << 16 else 4
    texts = [text for share in shares if (text := look(share.corpus, id_bytes))]
    if len(texts) < len(shares):
        return None
    of_language: defaultdict[tuple[str, ...], float] = defaultdict(float)
    for share, text in zip(shares, texts, strict=True):
        of_language[share.corpus.languages] += share.weight * text.tokens
    return [
        (share.weight * of_language[share.corpus.languages] ** (stage.smoothing - 1), text)
        for share, text in zip(shares, texts, strict=True)
    ]


def _look_at_one(corpus: Corpus, id_bytes: int) -> TextFacts | None:
    if isinstance(corpus, Docstrings | Hf):
        return None
    try:
        if not isinstance(corpus, Prepared):
            from bertc.text.sources.files import matching_files, unpacked_bytes

            names = [name for name, _ in file_names(corpus)]
            size = sum(unpacked_bytes(matching_files(name)) for name in names)
            tokens = max(1, int(size / (1 if isinstance(corpus, Fasta) else BYTES_A_TOKEN)))
            counts = tokens, tokens // TOKENS_A_SENTENCE
            return TextFacts(" ".join(names), size, *counts, id_bytes, counted=False)
        from bertc.text.prepared.opening import bytes_of, read_corpus

        prepared = read_corpus(place := FolderAt(corpus.path))
    except (DataError, MissingInputError):  # reported by those who need the text
        return None
    counts, size = prepared.facts["train"], int(prepared.plan.read.get("bytes", 0))
    parts = sorted(bytes_of(part, prepared.plan.dtype) for part in prepared.parts)
    return TextFacts(
        corpus.path, size, counts["tokens"], counts["sentences"], id_bytes,
        counted=True, remote=place.folder is None, cache_bytes=corpus.cache,
        window_bytes=sum(parts[-2 * corpus.window :]),
    )  # fmt: skip


def data_of(read: Sequence[StageTexts], processes: int) -> DataEstimate | None:
    """The text of stages of a run on ``processes``; None if a look does not tell."""
    passes: defaultdict[TextFacts, float] = defaultdict(float)
    tokens_read, seconds = 0, 0.0
    for stage_read, stage_seconds, texts in read:
        if texts is None:
            return None
        if not texts:  # a stage of tasks
            continue
        drawn = sum(weight * text.tokens for weight, text in texts)
        for weight, text in texts:
            passes[text] += weight * stage_read / drawn
        tokens_read += stage_read
        seconds += stage_seconds
    if not passes:
        return None
    remote = {text: count for text, count in passes.items() if text.remote}
    download = sum(download_size(text, count) for text, count in remote.items())
    asked = sum(text.prepared_bytes * count for text, count in remote.items())
    unprepared = sum(text.text_bytes for text in passes if not text.counted)
    cores = available_cores()
    return DataEstimate(
        text_bytes=sum(text.text_bytes for text in passes),
        tokens=sum(text.tokens for text in passes), counted=not unprepared, tokens_read=tokens_read,
        passes=max(passes.values()), prepared_bytes=sum(text.prepared_bytes for text in passes),
        prepare_seconds=unprepared / (cores * PREPARED_BYTES), cores=cores,
        download_bytes=int(download), cache_hit_share=1 - download / asked if asked else 0.0,
        over_cache_bytes=sum(t.window_bytes for t in remote if 0 < t.cache_bytes < t.window_bytes),
        reader_share=tokens_read / (processes * LOADED_TOKENS) / seconds,
    )  # fmt: skip


def download_size(text: TextFacts, passes: float) -> float:
    """Bytes that each machine copies from a store.

    Each pass has another order of shards, and the cache drops the one read longest ago: a cache of
    c of the text then has c + (1 - c) ln(1 - c) of what a later pass reads.
    """
    stays = max(text.cache_bytes, text.window_bytes) / text.prepared_bytes
    cached = min(1.0, stays) if text.cache_bytes else 1.0
    hits = cached + (1 - cached) * log(1 - cached) if cached < 1 else 1.0
    return text.prepared_bytes * (min(1.0, passes) + max(0.0, passes - 1) * (1 - hits))


def count_examples(term: Term) -> Term:
    """The term with the labels and the number of training examples of its task, if it has one."""
    task = term.objective
    if not isinstance(task, Task):
        return term
    asks = label_names(task.answer) == UNKNOWN
    balances = isinstance(task.class_loss, BalancedLoss) and not task.class_loss.weights
    imported = isinstance(task, OwnTask) and not task.train
    if not (asks or (balances and not imported)) and (task.examples or imported):
        return term
    from bertc.tasks.examples.task_sets import training_facts

    examples, labels, weights = training_facts(task)
    update: dict[str, Any] = {"examples": examples}
    if balances:
        update["loss"] = task.class_loss.model_copy(update={"weights": weights})
    if asks:
        many: Any = getattr(task, "labels", ())
        named = isinstance(many, Many)
        update["labels"] = many.model_copy(update={"names": labels}) if named else labels
    return term.model_copy(update={"objective": task.model_copy(update=update)})


def read_files(objectives: Iterable[Given], diagnostics: Diagnostics) -> None:
    """Read the training and dev files of tasks; report each that cannot be used, as E309."""
    from bertc.tasks.layouts.parts import check_there, named_parts, part_examples
    from bertc.tasks.layouts.table import DataParts
    from bertc.text.sources.files import begin_as_text

    for given in objectives:
        for index, term in enumerate(given.value):
            if not isinstance(term.objective, Task):
                continue
            reported = partial(_report, diagnostics, given, index)
            parts: DataParts = {}
            with reported("train"):
                term = count_examples(term)
            task: Any = term.objective
            with reported("data"):
                parts = named_parts(task)
            for name, part in parts.items():
                with reported(name.removeprefix("dev-")):
                    if name.startswith("dev"):
                        part_examples(task, name)
                    elif name != "train":
                        check_there(task, name, part.source)
            sources = (p.source for name, p in parts.items() if name.startswith(("train", "dev")))
            if not diagnostics.found:
                files = [path for path in sources if isinstance(path, Path) and is_file(path)]
                remark_on(begin_as_text(files), given.origin.span, diagnostics)


@contextmanager
def _report(diagnostics: Diagnostics, terms: Given, index: int, within: str) -> Iterator[None]:
    """Report an error of the block at the argument of a task, else at all of the task."""
    try:
        yield
    except (MissingInputError, DataError) as error:
        if isinstance(error, MissingColumnError):
            settings = dict(terms.value[index].objective).items()
            names = [f"{name}=COLUMN" for name, value in settings if repr(value) in error.message]
            error.help += f"; by {', '.join(names)} of the task" * bool(names)
        places = ((index, "objective", name) for name in (within, "data"))
        spans = [terms.origin.parts[at] for at in places if at in terms.origin.parts]
        diagnostics.error("E309", error.message, (*spans, terms.origin.span)[0], help=error.help)


def row_lengths(programs: Sequence[Resolved]) -> list[tuple[int, ...]]:
    """Mean row length in tokens of each program, stage by stage."""
    once = cache(_row_length)

    def length(stage: Stage, vocabulary: Vocabulary) -> int:
        if not (isinstance(stage, TaskStage) and isinstance(vocabulary, TokenizerFile)):
            return stage.seq
        segments = stage.encoder.kinds_of_segments
        return once(stage.tasks, stage.smoothing, stage.seq, segments, vocabulary)

    return [tuple(length(s, program.vocabulary) for s in program.stages) for program in programs]


def full_rows(program: Resolved, lengths: Sequence[int]) -> bool:
    """True if rows of a task count as full, as ``row_lengths`` has them if it knows no better."""
    return any(
        isinstance(stage, TaskStage) and length == stage.seq
        for stage, length in zip(program.stages, lengths, strict=True)
    )


def _row_length(
    tasks: tuple[Any, ...], smoothing: float, seq: int, segments: int, vocabulary: TokenizerFile
) -> int:
    from bertc.tasks.examples.task_sets import mean_length
    from bertc.text.vocab.vocabulary import load_vocabulary

    try:
        known = load_vocabulary(vocabulary)
        lengths = [mean_length(task, known, seq, segments) for task in tasks]
    except MissingInputError:  # a spec may say how many examples there are without having them
        return seq
    # Several are drawn in proportion to their size as the spec has it.
    sizes: list[float] = [task.examples**smoothing for task in tasks]
    mean: float = sum(map(mul, sizes, lengths)) / sum(sizes)
    return math.ceil(mean)
