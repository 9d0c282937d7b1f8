"""``bertc prepare``: tokenisation ahead of training, part by part, by any number of workers."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bertc.base.diagnostics import DataError, UsageError, several
from bertc.base.storage.place import FolderAt
from bertc.data.batches.arranged import arrangements, count_rows, how
from bertc.data.batches.order import texts_of
from bertc.data.cache.store import MANIFEST_FILE, Facts, Progress, Silent, fingerprint, obtain, seal
from bertc.data.corpus import vocabulary_for
from bertc.data.prepared.manifest import (
    HELD_OUT,
    TOKENIZER,
    PreparationPlan,
    PreparedPart,
    PreparedText,
    part_at,
    read_plan,
    write_corpus,
    write_plan,
)
from bertc.data.rows.holdout import join_held_out
from bertc.data.rows.tokenise import tokenise
from bertc.data.rows.tokens import TOKEN_FILES, Tokens, open_tokens, token_dtype
from bertc.data.shards import spelling
from bertc.data.sources.opening import open_source
from bertc.data.sources.source import CorpusText, TextSource
from bertc.data.vocab.vocabulary import Vocabulary
from bertc.ir.data import Parallel, Prepared
from bertc.ir.program.resolved import Resolved

NAME_DIGITS = 5


@dataclass(frozen=True)
class Preparation:
    """A text on its way into a place."""

    place: FolderAt
    plan: PreparationPlan
    parts: dict[str, TextSource]
    vocabulary: Vocabulary
    resolved: Resolved


def begin_preparing(
    resolved: Resolved, place: FolderAt, cache: Path, progress: Progress
) -> Preparation:
    """Settle what every worker has to have alike: the parts, and the tokenizer.

    The tokenizer of a place is the one that its first worker put there.
    """
    text = _only_text(resolved)
    source = open_source(*text)
    parts = source.parts or (source,)
    vocabulary = vocabulary_for(resolved, {text: source}, cache, progress, None)
    plan = PreparationPlan(
        source=fingerprint([_content(part.identity) for part in parts]),
        tokenizer=spelling(vocabulary),
        dtype=np.dtype(token_dtype(vocabulary.size)).name,
        separator=vocabulary.sep,
        holdout=resolved.run.holdout,
        read={"text": source.name, "sentences": source.sentences, "bytes": source.text_bytes},
        parts=tuple(f"{number:0{NAME_DIGITS}}" for number in range(len(parts))),
    )
    write_plan(place, plan)
    if part_at(place, TOKENIZER) is None:
        _put(place, TOKENIZER, partial(_saved, vocabulary), progress)
    return Preparation(place, plan, dict(zip(plan.parts, parts, strict=True)), vocabulary, resolved)


def _saved(vocabulary: Vocabulary, folder: Path) -> Facts:
    vocabulary.save(folder)
    return {}


def _only_text(resolved: Resolved) -> CorpusText:
    texts = dict.fromkeys(text for stage in resolved.stages for _, text in texts_of(stage))
    if len(texts) != 1:
        raise UsageError(
            f"the spec reads {several(len(texts), 'text')}; one is prepared at a time",
            "--set 'data=files(\"...\")' names it; mix prepared ones in the spec that trains",
        )
    (text,) = texts
    if isinstance(text.corpus, Prepared | Parallel):
        raise UsageError(
            f"{text.corpus.kind}(...) is not prepared ahead",
            "files(...), hf(...) and docstrings are",
        )
    return text


def _content(identity: Iterable[Any]) -> list[Any]:
    """The parts of an identity that every machine has alike: sizes and samples."""
    return [
        [Path(str(value[0])).name, value[1], value[3]]
        if isinstance(value, tuple) and len(value) == 4
        else value
        for value in identity
    ]


def make_parts(work: Preparation, names: Iterable[str], progress: Progress) -> None:
    """Make the parts of these names, but for those that are there already."""
    for name in names:
        if part_at(work.place, name) is None:
            _make(work, name, progress)


def _make(work: Preparation, name: str, progress: Progress) -> None:
    source, vocabulary = work.parts[name], work.vocabulary
    holdout, alone = work.plan.holdout, len(work.parts) == 1

    def fill(folder: Path) -> Facts:
        facts = tokenise(folder, source, vocabulary, holdout, progress, least=alone)
        return {**facts, "rows": dict(_rows(work, folder))}

    _put(work.place, name, fill, progress)


def _put(place: FolderAt, name: str, fill: Callable[[Path], Facts], progress: Progress) -> None:
    """Make a folder of the place: aside and renamed, or in a store its manifest last."""
    if place.folder:
        obtain(place.folder / name, fill, progress)
        return
    with tempfile.TemporaryDirectory(prefix="bertc-") as aside:
        folder = Path(aside)
        seal(folder, fill(folder))
        progress.begin(f"sending {place.address}/{name}", 0, "")
        place.put(folder, name, MANIFEST_FILE)
        progress.end()


def _rows(work: Preparation, folder: Path) -> Iterator[tuple[str, Facts]]:
    """Counts of rows of the training text, for each way that the stages arrange it."""
    tokens = open_tokens(folder, "train", np.dtype(work.plan.dtype).type)
    for stage in work.resolved.stages if len(tokens.ids) else ():
        for arrangement in arrangements(stage, work.resolved):
            yield how(arrangement, stage), count_rows(tokens, arrangement, stage)


def finish_preparing(place: FolderAt, progress: Progress) -> PreparedText:
    """Write the manifest of a place whose parts are all there."""
    plan = read_plan(place)
    if plan is None:
        raise UsageError(f"nothing is prepared at {place.address}", "bertc prepare SPEC --to")
    progress.begin("looking at the parts", len(plan.parts), "parts")
    parts = []
    for name in plan.parts:
        parts.append(part_at(place, name))
        progress.advance(1)
    progress.end()
    whole = [part for part in parts if part is not None]
    if missing := len(parts) - len(whole):
        first = next(name for name, part in zip(plan.parts, parts, strict=True) if part is None)
        raise DataError(
            f"{several(missing, 'part')} of {len(parts):,} at {place.address} "
            f"{'is' if missing == 1 else 'are'} missing or damaged, the first is {first}",
            "bertc prepare with the same spec and --to makes those alone",
        )
    if plan.holdout and not any(part.facts["heldout"]["tokens"] for part in whole):
        raise DataError(
            f"{plan.holdout:.3%} of the documents holds out none", "a larger holdout: holdout=5%"
        )
    _put(place, HELD_OUT, lambda folder: _held_out(folder, place, plan, whole), Silent())
    heldout = part_at(place, HELD_OUT)
    assert heldout is not None
    corpus = write_corpus(place, plan, whole, heldout)
    for lock in place.folder.glob("*.lock") if place.folder else ():
        lock.unlink(missing_ok=True)
    return corpus


def _held_out(
    folder: Path, place: FolderAt, plan: PreparationPlan, parts: list[PreparedPart]
) -> Facts:
    """Join the held-out text of the parts, and add up their counts of tokens."""
    dtype = np.dtype(plan.dtype).type
    with tempfile.TemporaryDirectory(prefix="bertc-") as name:
        aside = Path(name)
        counts = [_fetched(place, part, "train.counts", aside) for part in parts]
        total = np.sum([np.fromfile(path, np.int64) for path in counts], axis=0)

        def opened(part: PreparedPart) -> Tokens:
            paths = [_fetched(place, part, f"heldout.{file}", aside) for file in TOKEN_FILES]
            return open_tokens(paths[0].parent, "heldout", dtype)

        facts = join_held_out(folder, (opened(p) for p in parts if p.facts["heldout"]["tokens"]))
    (folder / "train.counts").write_bytes(total.tobytes())
    return facts


def _fetched(place: FolderAt, part: PreparedPart, name: str, folder: Path) -> Path:
    """A file of a part, on this machine."""
    if place.folder:
        return place.folder / part.name / name
    (folder / part.name).mkdir(exist_ok=True)
    place.get(f"{part.name}/{name}", folder / part.name / name)
    return folder / part.name / name
