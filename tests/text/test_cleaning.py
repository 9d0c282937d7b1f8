"""Cleaning: the same documents are left out of a part, of many, and of prepared text."""

import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bertc.base.diagnostics import DataError
from bertc.base.storage.place import FolderAt
from bertc.ir.program.resolved import Resolved
from bertc.tasks.corpus import PreparedCorpus, prepare
from bertc.text.cache.store import Silent
from bertc.text.prepared import finishing
from bertc.text.prepared.finishing import finish_preparing
from bertc.text.prepared.making import begin_preparing, make_parts
from bertc.text.prepared.opening import read_corpus, tokenizer_at
from bertc.text.sources import files

from .conftest import document, resolved
from .test_prepare import Notes
from .test_prepared import SETTINGS, made, reading

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


def spec(path: Path, rules: str = RULES) -> Resolved:
    clean = f"clean=documents({rules})" if rules else ""
    data = f'data=files("{path}", sentences=lines)'
    return resolved(f"{data} {SETTINGS} format=doc-sentences {clean}")


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
    corpus = prepare(spec(text), tmp_path / "cache", notes)
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
    again = prepare(spec(text), tmp_path / "cache", Silent())
    assert again.fingerprint == corpus.fingerprint
    assert again.fingerprint != prepare(spec(text, ""), tmp_path / "cache", Silent()).fingerprint


@pytest.mark.parametrize("to", ["{}/to", "memory://{}/clean"])
def test_prepared_text_is_cleaned_as_text_is(text, tmp_path, monkeypatch, to):
    monkeypatch.setattr(files, "PART_BYTES", 3000)
    straight = prepare(spec(text), tmp_path / "cache", Silent())
    place = made(spec(text), to.format(tmp_path), tmp_path / "made", 3)
    corpus = finish_preparing(place, Silent())
    assert corpus.facts["removed"] == straight.texts[0].facts["removed"]
    program = reading(place.address, tokenizer_at(place.address, tmp_path / "cache"))
    read = prepare(program, tmp_path / "other", Silent())
    assert np.array_equal(read.texts[0].counts, straight.texts[0].counts)
    for split in ("train", "heldout"):
        assert ids(read, split) == ids(straight, split)
    for part, name in (("00002", "train.ids"), ("00003", "manifest.json")):
        FolderAt(f"{place.address}/{part}").write(name, b"")
    for _ in range(2):
        made(spec(text), place.address, tmp_path / "made")
        assert finish_preparing(FolderAt(place.address), Silent()) == corpus


@pytest.mark.parametrize("to", ["{}/to", "memory://{}/at-once"])
def test_two_that_finish_at_once_write_one_manifest(text, tmp_path, monkeypatch, to):
    monkeypatch.setattr(files, "PART_BYTES", 3000)
    straight = finish_preparing(made(spec(text), f"{tmp_path}/one", tmp_path / "made"), Silent())
    for name in ("survey", "copies"):  # after it the other one comes between
        place = FolderAt(f"{to.format(tmp_path)}/{name}")
        work = begin_preparing(spec(text), place, tmp_path / "made", Silent())
        make_parts(work, work.plan.parts, Silent())
        before = getattr(finishing, name)

        def between(*arguments, name=name, before=before, place=place):
            result = before(*arguments)
            monkeypatch.setattr(finishing, name, before)
            finish_preparing(place, Silent())
            return result

        monkeypatch.setattr(finishing, name, between)
        assert finish_preparing(place, Silent()) == read_corpus(place) == straight


def test_rules_that_leave_too_little_say_what_they_removed(text: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"fewer than two sentences where clean removed 9. docum"):
        prepare(spec(text, "shortest=1M"), tmp_path / "cache", Silent())
