"""Text in many shards: what is opened how often, which rows are read when, what is cleaned."""

import errno
import json
import os
import random
import re
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import fsspec
import numpy as np
import pytest

from bertc.api import check
from bertc.base.diagnostics import CannotWriteError, DataError, SpecError, UsageError
from bertc.base.storage import durable
from bertc.base.storage.place import FolderAt
from bertc.ir.program.resolved import Resolved
from bertc.run import preparing
from bertc.run.preparing import finish_preparing
from bertc.tasks.corpus import PreparedCorpus, prepare
from bertc.text.cache import store
from bertc.text.cache.store import Silent, copied, make_room
from bertc.text.prepared import plan
from bertc.text.prepared.making import begin_preparing, make_parts
from bertc.text.prepared.opening import read_corpus, tokenizer_at
from bertc.text.sources import files
from bertc.use.preview import preview

from .conftest import document, joined, resolved, same
from .test_parts import write
from .test_prepare import Notes
from .test_prepared import SETTINGS, made, read_at, reading, small_parts, spec  # noqa: F401


@pytest.fixture
def place(tmp_path: Path):
    write(tmp_path / "a.jsonl", 60)
    return made(spec(tmp_path / "a.jsonl"), f"memory://{tmp_path.name}", tmp_path / "cache")


def test_a_manifest_is_parsed_once_until_it_changes(tmp_path, monkeypatch, place):
    parsed = []
    monkeypatch.setattr(
        plan, "_fields", lambda raw, fields=plan._fields: parsed.append(1) or fields(raw)
    )
    before = read_corpus(place)
    assert read_corpus(place) is before
    assert len(parsed) == 1
    made(spec(tmp_path / "a.jsonl"), place.address, tmp_path / "other")
    assert read_corpus(place) is not before


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.suffix != ".lock"}


def shard(folder: Path, name: str, opened: float = 0) -> Path:
    """A folder of the cache with 100 bytes, opened at a Unix time."""
    (folder / name).mkdir()
    (folder / name / "manifest.json").write_bytes(b"m" * 100)
    if opened:
        os.utime(folder / name / "manifest.json", (opened, opened))
    return folder / name


def test_the_shards_opened_longest_ago_make_room_but_for_those_that_are_read(tmp_path):
    for nth, name in enumerate(("aa", "bb", "bb-rows", "cc", "dd", "ee-rows"), 1):
        shard(tmp_path, name, 1000 * nth)
    for name in ("ff.tmp-1", "gg.tmp-1"):  # of a process that copies, and of one that is gone
        shard(tmp_path, name, 1)
    os.utime(tmp_path / "gg.tmp-1", (1, 1))
    shard(tmp_path, "ff-rows", 1)
    read = store._lock_manifest(tmp_path / "aa", store.fcntl.LOCK_SH)
    assert not make_room(tmp_path, 0, 900)
    assert make_room(tmp_path, 150, 900)  # 100 too many, then 50
    assert names(tmp_path) == {"aa", "cc", "dd", "ee-rows", "ff.tmp-1", "ff-rows"}
    make_room(tmp_path, 10**6)
    assert names(tmp_path) == {"aa", "ff.tmp-1", "ff-rows"}
    os.close(read)
    assert make_room(tmp_path, 1)
    assert names(tmp_path) == {"ff.tmp-1", "ff-rows"}


def test_a_full_disk_is_emptied_of_shards_that_nobody_reads(tmp_path, monkeypatch):
    shard(tmp_path, "old", 1000)
    room = [lambda: 100 - 100 * (tmp_path / "old").exists()]
    monkeypatch.setattr(durable, "free_bytes", lambda path: room[0]())
    os.close(copied(tmp_path / "new", lambda folder: {}, Silent(), 50))
    assert names(tmp_path) == {"new"}
    room[0] = lambda: 0
    with pytest.raises(CannotWriteError, match="the disk is full"):
        copied(tmp_path / "newer", lambda folder: {}, Silent(), 50)


def test_copies_that_others_have_begun_are_counted_before_another_begins(tmp_path):
    def meanwhile(folder):
        os.close(copied(tmp_path / "mine", lambda folder: {}, Silent(), 100, 250))
        assert names(tmp_path) == {"mine", folder.name}
        return {}

    shard(tmp_path, "old", 1000)
    os.close(copied(tmp_path / "other", meanwhile, Silent(), 100, 250))
    assert os.listdir(tmp_path / "mine") == os.listdir(tmp_path / "other") == ["manifest.json"]


def test_a_cache_that_others_filled_is_read_without_writing(tmp_path, monkeypatch, place):
    program = reading(place.address, tokenizer_at(place.address, tmp_path / "cache"))
    read = prepare(program, tmp_path / "cache", Silent()).stages[0]
    straight = [read.train(step) for step in range(8)]
    refuse = Mock(side_effect=OSError(errno.EROFS, os.strerror(errno.EROFS)))
    for name in ("utime", "mkdir", "rename", "rmdir", "unlink"):
        monkeypatch.setattr(os, name, refuse)
    again = prepare(program, tmp_path / "cache", Silent()).stages[0]
    assert all(same(again.train(step), batch) for step, batch in enumerate(straight))
    with pytest.raises(CannotWriteError, match="read-only file system") as error:
        prepare(program, tmp_path / "other", Silent())
    assert "BERTC_CACHE" in str(error.value.help)


def test_the_budget_holds_but_for_the_shards_of_two_windows(tmp_path: Path, place) -> None:
    read = read_at(place.address, tmp_path / "other", "", ", cache=20k").stages[0]
    for step in range(2 * read.examples // 4):
        read.train(step)
        there = names(tmp_path / "other/shards")
        assert len({name[:64] for name in there if name[0] != "."}) <= 9


def test_check_compares_tokenizers(tmp_path: Path, place) -> None:
    own, other = tokenizer_at(place.address, tmp_path / "cache"), tmp_path / "other/tokenizer"
    shorter = resolved(f'data="{tmp_path}/a.jsonl" vocab=wordpiece(200) holdout=10% objective=mlm')
    made(shorter, f"{tmp_path}/other", tmp_path / "cache")
    data = f'layers=1 hidden=16 heads=1 data=prepared("{place.address}")'
    assert check(f'{data} vocab="{own}"')
    for vocab in (f'"{other}"', "wordpiece(300)"):
        with pytest.raises(SpecError, match="another tokenizer than the run's"):
            check(f"{data} vocab={vocab}")


def test_a_preview_of_a_step_shows_its_batch(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("BERTC_CACHE", str(tmp_path / "cache"))
    write(tmp_path / "a.jsonl", 60)
    program = spec(tmp_path / "a.jsonl", "format=doc-sentences")
    corpus = prepare(program, tmp_path / "cache", Silent())
    text = preview(program, 2, color=False, step=17)
    lengths = corpus.stages[0].train(17).lengths.tolist()[:2]
    assert re.findall(r"row \d, (\d+) tokens", text) == list(map(str, lengths))
    with pytest.raises(UsageError, match="step 40 is none of 40"):
        preview(program, 2, color=False, step=40)


def test_mixtures_of_stages_are_equal_wherever_they_are_read(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", 60)
    made(spec(tmp_path / "a.jsonl"), f"{tmp_path}/text/a", tmp_path / "made")
    rows = "holdout=20% objective=mlm format=doc-sentences seq=48 batch=4"
    other = f'data="{tmp_path}/a.jsonl" vocab="{tmp_path}/text/a/tokenizer" {rows}'
    made(resolved(other), f"{tmp_path}/text/b", tmp_path / "made")
    far = f"memory://{tmp_path.name}/mix"
    fsspec.filesystem("memory").put(f"{tmp_path}/text/", far, recursive=True)

    def opened(store: str, cache: str) -> list:
        a, b = (f'prepared("{store}/{name}", window=3{cache})' for name in "ab")
        stages = f'stage "main" {{ data = {a}*0.7 + {b}*0.3 }} stage "decay" {{ data = {b} }}'
        read = resolved(f'vocab="{tmp_path}/text/a/tokenizer" steps=40 {rows[12:]} {stages}')
        return list(prepare(read, tmp_path / f"cache{cache[-3:]}", Silent()).stages)

    straight = opened(f"{tmp_path}/text", "")
    for ranks, stages in ((4, straight), (2, opened(far, ", cache=20k"))):
        for stage, expected in zip(stages, straight, strict=True):
            for step in (0, 30, 7, 8):
                parts = [slice(rank * 4 // ranks, (rank + 1) * 4 // ranks) for rank in range(ranks)]
                batch = joined(*(stage.train(step, rows) for rows in parts))
                assert same(batch, expected.train(step))


RULES = "unique=true, shortest=40, longest=1500, letters=60%, tokens=0.45"


def texts() -> list[str]:
    """Documents that each rule removes, and copies of others within a part and far away."""
    good = [document(number, 1 + number % 9) for number in range(60)]
    short, long = ["A hen."] * 3, [document(90, 60), document(91, 70)]
    other = ["12,34 " * 30, "(-) * / " * 20 + "hen"], ["a b c d e f g h i j k " * 9]
    copies = [text.upper().replace(" ", "\n") for text in good[5:50:3]]
    texts = [*good, *copies, *good[10:20], *short, *long, *other[0], *other[1]]
    random.Random(1).shuffle(texts)
    return texts


def left(tokenizer) -> tuple[list[str], Counter[str]]:
    """The documents that the rules leave, one by one, and what each removes."""
    seen, stays, removed = set[str](), list[str](), Counter[str]()
    for text in texts():
        key, visible = "".join(text.lower().split()), "".join(text.split())
        tokens = len(tokenizer.encode(text, add_special_tokens=False).ids)
        if len(text) < 40:
            removed["shortest"] += 1
        elif len(text) > 1500:
            removed["longest"] += 1
        elif sum(c.isalpha() for c in visible) < 0.6 * len(visible):
            removed["letters"] += 1
        elif tokens > 0.45 * len(text):
            removed["tokens"] += 1
        elif key in seen:
            removed["unique"] += 1
        else:
            seen.add(key)
            stays.append(text)
    return stays, removed


def cleaned(path: Path, rules: str = RULES) -> Resolved:
    clean = f"clean=documents({rules})" if rules else ""
    data = f'data=files("{path}", sentences=lines)'
    return resolved(f"{data} {SETTINGS} format=doc-sentences {clean}")


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(files, "PART_BYTES", 1 << 20)
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts()))
    return path


def ids(corpus: PreparedCorpus, split: str) -> list[list[int]]:
    """The tokens of each document of a split, in order."""
    documents = []
    for shard in getattr(corpus.texts[0], split):
        tokens = shard.opened()
        for first, last in zip(tokens.documents[:-1], tokens.documents[1:], strict=True):
            start, end = tokens.sentences[first], tokens.sentences[last]
            documents.append(tokens.ids[start : end - 1].tolist())
    return documents


@pytest.mark.parametrize("part_bytes", [1 << 20, 9000, 3000])
def test_rules_leave_the_same_documents_in_text_of_any_parts(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int
) -> None:
    monkeypatch.setattr(files, "PART_BYTES", part_bytes)
    notes = Notes()
    corpus = prepare(cleaned(text), tmp_path / "cache", notes)
    tokenizer = corpus.vocabulary.tokenizer
    stays, removed = left(tokenizer)
    assert {*removed} == {"shortest", "longest", "letters", "tokens", "unique"}
    assert corpus.texts[0].facts["removed"] == removed
    assert f"clean removed {sum(removed.values())} documents" in notes.notes[-1]
    expected = sorted(tokenizer.encode(text, add_special_tokens=False).ids for text in stays)
    train, heldout = ids(corpus, "train"), ids(corpus, "heldout")
    assert sorted(train + heldout) == expected
    assert heldout
    counts = np.bincount(np.concatenate(train), minlength=corpus.vocabulary.size)
    assert np.array_equal(corpus.texts[0].counts, counts)
    again = prepare(cleaned(text), tmp_path / "cache", Silent())
    assert again.fingerprint == corpus.fingerprint
    assert again.fingerprint != prepare(cleaned(text, ""), tmp_path / "cache", Silent()).fingerprint


@pytest.mark.parametrize("to", ["{}/to", "memory://{}/clean"])
def test_prepared_text_is_cleaned_as_text_is(text, tmp_path, monkeypatch, to):
    monkeypatch.setattr(files, "PART_BYTES", 3000)
    straight = prepare(cleaned(text), tmp_path / "cache", Silent())
    place = made(cleaned(text), to.format(tmp_path), tmp_path / "made", 3)
    corpus = finish_preparing(place, Silent())
    assert corpus.facts["removed"] == straight.texts[0].facts["removed"]
    read = read_at(place.address, tmp_path / "other")
    assert np.array_equal(read.texts[0].counts, straight.texts[0].counts)
    for split in ("train", "heldout"):
        assert ids(read, split) == ids(straight, split)
    for part, name in (("00002", "train.ids"), ("00003", "manifest.json")):
        FolderAt(f"{place.address}/{part}").write(name, b"")
    for _ in range(2):
        made(cleaned(text), place.address, tmp_path / "made")
        assert finish_preparing(FolderAt(place.address), Silent()) == corpus


@pytest.mark.parametrize("to", ["{}/to", "memory://{}/at-once"])
def test_two_that_finish_at_once_write_one_manifest(text, tmp_path, monkeypatch, to):
    monkeypatch.setattr(files, "PART_BYTES", 3000)
    straight = finish_preparing(made(cleaned(text), f"{tmp_path}/one", tmp_path / "made"), Silent())
    for name in ("survey", "copies"):  # after it the other one comes between
        place = FolderAt(f"{to.format(tmp_path)}/{name}")
        work = begin_preparing(cleaned(text), place, tmp_path / "made", Silent())
        make_parts(work, work.plan.parts, Silent())
        before = getattr(preparing, name)

        def between(*arguments, name=name, before=before, place=place):
            result = before(*arguments)
            monkeypatch.setattr(preparing, name, before)
            finish_preparing(place, Silent())
            return result

        monkeypatch.setattr(preparing, name, between)
        assert finish_preparing(place, Silent()) == read_corpus(place) == straight


def test_rules_that_leave_too_little_say_what_they_removed(text: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"fewer than two sentences where clean removed 9. docum"):
        prepare(cleaned(text, "shortest=1M"), tmp_path / "cache", Silent())
