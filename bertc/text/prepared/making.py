"""``bertc prepare``: tokenisation ahead of training, part by part, by any number of workers."""

import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bertc.base.diagnostics import DataError, UsageError, listed, refuse_all, several
from bertc.base.diagnostics.errors import UnknownTokensError
from bertc.base.storage.place import FolderAt
from bertc.cost.units import bytes_text
from bertc.ir.cleaning import Documents
from bertc.ir.program import Resolved
from bertc.ir.vocabulary import Fixed, TokenizerFile
from bertc.lang import setting_shape, show_value
from bertc.text.batches.arranged import arrangements, count_rows, how
from bertc.text.batches.order import texts_of
from bertc.text.cache.store import Facts, Progress, Silent, fingerprint
from bertc.text.cache.workers import Advance, spread
from bertc.text.prepared.opening import copy_part, part_at, put_folder
from bertc.text.prepared.plan import NAME_DIGITS, TOKENIZER, PreparationPlan, write_plan
from bertc.text.rows.tokens import open_tokens, token_dtype
from bertc.text.shards import spelling, tokenise
from bertc.text.sources.opening import open_source
from bertc.text.sources.source import CorpusText, TextSource, identifies_file
from bertc.text.vocab.fixed import unknown_remark
from bertc.text.vocab.vocabulary import Vocabulary, load_vocabulary
from bertc.text.vocabularies import vocabulary_for


@dataclass(frozen=True)
class Preparation:
    """A text on its way into a place."""

    place: FolderAt
    plan: PreparationPlan
    parts: dict[str, TextSource]
    vocabulary: Vocabulary


def begin_preparing(
    resolved: Resolved,
    place: FolderAt,
    cache: Path,
    progress: Progress,
    command: str = "bertc prepare SPEC",
) -> Preparation:
    """Settle what every worker has to have alike: the parts, the rows, and the tokenizer.

    What is known before any text is read is put first, so a place that cannot be written, or holds
    something else, is refused at once. The tokenizer is the one that the first worker put there.
    """
    text = only_text(resolved)
    source = open_source(*text)
    plan = _plan(resolved, source, command)
    if empty := [file[0] for file in source.identity if identifies_file(file) and not file[1]]:
        progress.note(f"{several(len(empty), 'input')} without text: {listed(empty)}")

    def completed() -> tuple[Vocabulary, PreparationPlan]:
        vocabulary = vocabulary_for(resolved, {text: source}, cache, progress, None)
        dtype, digest = np.dtype(token_dtype(vocabulary.size)).name, spelling(vocabulary)
        return vocabulary, replace(plan, tokenizer=digest, dtype=dtype, separator=vocabulary.sep)

    first = plan if plan.vocab else completed()[1]
    agreed = write_plan(place, first)
    vocabulary = _vocabulary_at(place, agreed)
    if vocabulary is None:
        vocabulary, agreed = completed()
        if part_at(place, TOKENIZER, None, sys.maxsize) is None:
            put_folder(place, TOKENIZER, partial(_saved, vocabulary))
        write_plan(place, agreed)
    parts = dict(zip(agreed.parts, source.parts or (source,), strict=True))
    return Preparation(place, agreed, parts, vocabulary)


def _plan(resolved: Resolved, source: TextSource, command: str) -> PreparationPlan:
    """The plan of a preparation before it has a tokenizer."""
    parts = source.parts or (source,)
    inputs = [_content(part.identity) for part in parts]
    tokenizer = show_value(resolved.vocabulary, setting_shape("vocab"))
    stages = [(s, a) for s in resolved.stages for a in arrangements(s, resolved)]
    rows = {how(a, s): f"{s.format.kind} of {s.seq}{' packed' * s.pack}" for s, a in stages}
    read = {
        "command": command, "text": source.name, "bytes": source.text_bytes,
        "source": source.name + f" with {bytes_text(source.text_bytes)}" * bool(source.text_bytes),
        "tokenizer": tokenizer, "vocab": tokenizer, "rows": ", ".join(dict.fromkeys(rows.values())),
        "parts": f"{len(parts):,}", "clean": show_value(resolved.run.clean),
    }  # fmt: skip
    return PreparationPlan(
        source=fingerprint(inputs), tokenizer="", dtype="", separator=0,
        holdout=resolved.run.holdout, clean=resolved.run.clean.model_dump(exclude_defaults=True),
        read=read, parts=tuple(f"{n:0{NAME_DIGITS}}" for n in range(len(parts))), rows=tuple(rows),
        vocab="" if isinstance(resolved.vocabulary, TokenizerFile) else tokenizer,
        program=resolved.model_dump(mode="json", exclude={"origins"}),
        inputs=tuple(map(fingerprint, inputs)),
    )  # fmt: skip


def _vocabulary_at(place: FolderAt, plan: PreparationPlan) -> Vocabulary | None:
    """The vocabulary that the first worker put into a place, None before that."""
    if not plan.tokenizer or (part := part_at(place, TOKENIZER, None, sys.maxsize)) is None:
        return None
    with tempfile.TemporaryDirectory(prefix="bertc-") as name:
        copy_part(place, part, Path(name))
        return load_vocabulary(TokenizerFile(path=name))


def _saved(vocabulary: Vocabulary, folder: Path) -> Facts:
    vocabulary.save(folder)
    return {}


def only_text(resolved: Resolved) -> CorpusText:
    """The text of a program that can be prepared; refuse several, and one that is prepared."""
    texts = dict.fromkeys(text for stage in resolved.stages for _, text in texts_of(stage))
    if len(texts) != 1:
        message = f"the spec reads {several(len(texts), 'text')}; one is prepared at a time"
        help = "--set 'data=files(\"...\")' names it; mix prepared ones in the spec that trains"
        raise UsageError(message, help)
    (text,) = texts
    if not text.corpus.is_text:
        message = f"{text.corpus.kind}(...) is not prepared ahead"
        raise UsageError(message, "files(...), fasta(...), hf(...) and docstrings are")
    return text


def _content(identity: Iterable[Any]) -> list[Any]:
    """The parts of an identity that every machine has alike: sizes and samples."""
    return [[Path(str(v[0])).name, v[1], v[3]] if identifies_file(v) else v for v in identity]


def make_parts(
    work: Preparation, names: Sequence[str], progress: Progress, workers: int = 1
) -> None:
    """Make the parts of these names, but for those that are there already.

    A single one is compared byte by byte, also in a store: that mends one that is damaged. Each of
    ``workers`` processes makes whole parts; those of few parts share the processes.
    """
    checked = sys.maxsize if len(names) == 1 else None
    missing = [name for name in names if part_at(work.place, name, work.plan, checked) is None]
    number = max(1, min(workers, len(missing)))
    shared = replace(work, place=FolderAt(work.place.address), parts={})  # for every process
    make = partial(_make, shared, workers // number)
    jobs = [(name, (name, work.parts[name])) for name in missing]
    if jobs:
        sources = [source for _, (_, source) in jobs]
        task = f"preparing {several(len(jobs), 'part')} of {work.plan.words('text')}"
        errors = list[DataError]()
        progress.begin(task, sum(source.total for source in sources), sources[0].unit)
        with closing(spread(make, jobs, number, progress.advance)) as finished:
            for error in filter(None, (error for _, error in finished)):
                progress.note(f"cannot be read to its end: {error.message}")
                errors.append(error)
        progress.end()
        refuse_all(errors)


class _Counting(Silent):
    """Progress whose amounts alone are reported."""

    def __init__(self, report: Advance) -> None:
        self._report = report

    def advance(self, amount: int) -> None:
        self._report(amount)


def _make(
    work: Preparation, cores: int, job: tuple[str, TextSource], report: Advance
) -> DataError | None:
    """Make a part in this process; return the error of one that cannot be read."""
    (name, source), plan = job, work.plan

    def fill(folder: Path) -> Facts:
        facts = tokenise(
            folder, source, work.vocabulary, plan.holdout, _Counting(report),
            least=len(plan.parts) == 1, cores=cores, rules=Documents(**plan.clean),
        )  # fmt: skip
        node = Resolved.model_validate(plan.program).vocabulary
        if isinstance(node, Fixed):
            counts = np.fromfile(folder / "train.counts", np.int64)
            unknown_remark(node, source, work.vocabulary, counts)
        return {**facts, "rows": rows_of(plan, folder), "plan": plan.digest_of(name)}

    # One that is whole may be of another preparation.
    try:
        put_folder(work.place, name, fill, anew=part_at(work.place, name) is not None)
    except UnknownTokensError:
        raise
    except DataError as error:
        return error  # after which the other parts are made
    return None


def rows_of(plan: PreparationPlan, folder: Path) -> dict[str, Facts]:
    """Counts of rows of the training text, for each way that the stages arrange it."""
    tokens = open_tokens(folder, "train", np.dtype(plan.dtype).type)
    program = Resolved.model_validate(plan.program)
    return {
        how(arrangement, stage): count_rows(tokens, arrangement, stage)
        for stage in program.stages
        if len(tokens.ids)
        for arrangement in arrangements(stage, program)
    }
