"""What is prepared is exact, whole or absent, made once, and made again when it is damaged."""

import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from bertc.base.diagnostics import CannotWriteError, DataError, MissingInputError
from bertc.ir.data import Files
from bertc.ir.program.resolved import Resolved
from bertc.tasks.corpus import prepare
from bertc.text.cache.store import Silent, obtain
from bertc.text.rows.rewriting import part_of_document
from bertc.text.sources import opening
from bertc.text.sources.opening import open_source
from bertc.text.sources.source import split_sentences
from bertc.text.vocabularies import sample
from tests.text.conftest import Make, document

Program = Callable[..., Resolved]
FARM = 'data="{}" vocab=wordpiece(200) objective=mlm seq=32 batch=4 steps=9'
FEW_WORDS = "vocab=wordpiece(100) objective=mlm format=doc-sentences seq=64 batch=4"


class Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.tasks: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)

    def begin(self, task: str, total: int, unit: str) -> None:
        self.tasks.append(task)


def written(path: Path, *texts: str) -> Path:
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts), encoding="utf-8")
    return path


@pytest.mark.parametrize("vocab", ["wordpiece(200)", "bpe(400)", "unigram(200)"])
def test_tokens_are_those_of_the_sentences(made: Make, farm: Path, vocab: str) -> None:
    corpus = made(f"vocab={vocab} objective=mlm format=doc-sentences seq=64 batch=4 holdout=0.3")
    (source,) = corpus.stages[0].train_sources
    expected = []
    for text, _, _, _ in open_source(Files(path=str(farm))).read():
        if part_of_document(text.encode(), 0.3) == "train":
            for place, sentence in enumerate(split_sentences(text, "split")):
                spaced = f" {sentence}" if vocab.startswith("bpe") and place else sentence
                expected += corpus.vocabulary.tokenizer.encode(spaced, add_special_tokens=False).ids
            expected.append(corpus.vocabulary.sep)
    assert source.copies[0].opened(0)[0].tolist() == expected
    counts = np.bincount(expected, minlength=corpus.vocabulary.size).astype(float)
    counts[corpus.vocabulary.sep] = 0
    assert np.allclose(corpus.vocabulary.unigram, counts / counts.sum())


def test_a_run_goes_on_with_the_unigrams_that_it_learned(farm, tmp_path, program):
    """Those of runs made before were learned otherwise; new runs take none from their cache."""
    spec = f'seq=16 batch=2 steps=2 data="{farm}"'
    wanted = program(f"{spec} vocab=unigram(200)")
    before = prepare(program(f"{spec} vocab=unigram(40)"), tmp_path, Silent()).vocabulary
    before.save(tmp_path / "run")
    again = prepare(wanted, tmp_path, Silent(), learned=tmp_path / "run").vocabulary
    assert again.tokenizer.to_str() == before.tokenizer.to_str()
    anew = prepare(wanted, tmp_path, Silent(), learned=tmp_path / "none").vocabulary
    assert anew.size > before.size


def test_tokens_that_the_text_does_not_give_are_reported_once(farm, tmp_path, program):
    wanted, notes = program(FARM.format(farm).replace("(200)", "(9999)")), Notes()
    for _ in range(2):
        prepare(wanted, tmp_path, notes)
    assert [note for note in notes.notes if "gives only" in note] == notes.notes[:1]
    with pytest.raises(DataError, match="gives only"):
        prepare(program(FARM.format(farm).replace("(200)", "(999999)")), tmp_path, notes)


def test_special_tokens_in_the_text_are_text_and_too_little_is_refused(made, tmp_path):
    for name, text in (("b", "One hen."), ("c", "")):
        path = written(tmp_path / f"{name}.jsonl", text)
        pytest.raises(DataError, made, FEW_WORDS, data=f'"{path}"')
    path = written(tmp_path / "a.jsonl", "One [SEP] and [MASK] hen. Two.", "Three [CLS] hens.")
    corpus = made(FEW_WORDS, data=f'"{path}"')
    (source,) = corpus.stages[0].train_sources
    ids = source.copies[0].opened(0)[0].tolist()
    assert corpus.vocabulary.mask not in ids
    assert ids.count(corpus.vocabulary.sep) == corpus.texts[0].facts["train"]["documents"]


@pytest.mark.parametrize(("texts", "train", "heldout"), [
    (["One hen. Two hens. Three hens."], 2, 1), (["One hen. Two hens."] * 20, 38, 2),
    (["Zero.", "One hen. " * 300], 298, 3), (["One hen. " * 300, "Zero. Nil."], 300, 2),
])  # fmt: skip
def test_a_part_is_always_held_out(made, tmp_path, texts, train, heldout):
    path = written(tmp_path / "a.jsonl", *texts)
    corpus = made(FEW_WORDS, "holdout=0.01", data=f'"{path}"')
    counts = [corpus.texts[0].facts[part]["sentences"] for part in ("train", "heldout")]
    assert sum(counts) == sum(len(split_sentences(text, "split")) for text in texts)
    assert counts == [pytest.approx(train, abs=2), pytest.approx(heldout, abs=1)]
    for source in (*corpus.stages[0].train_sources, *corpus.stages[0].heldout_sources):
        ids, _ = source.copies[0].opened(0)
        assert ids[-1] == corpus.vocabulary.sep
        assert (ids == corpus.vocabulary.sep).sum() >= 1


def test_preparing_again_reads_nothing(farm: Path, tmp_path: Path, program: Program) -> None:
    notes = [Notes() for _ in range(4)]
    spec, moved = FARM.format(farm), FARM.format(shutil.copy(farm, tmp_path / "moved.jsonl"))
    one, two, other, changed = (
        prepare(program(settings), tmp_path, noting).fingerprint
        for settings, noting in zip(
            (spec, spec, moved, spec.replace("seq=32", "seq=64")), notes, strict=True
        )
    )
    assert [len(noting.tasks) for noting in notes[:2]] == [3, 0]
    assert one == two == other != changed


def test_the_sample_is_bounded_fair_and_fixed(farm: Path, monkeypatch) -> None:
    source = open_source(Files(path=str(farm)))
    everything = sample([("", source)], Silent())
    monkeypatch.setattr("bertc.text.vocabularies.MOST_SAMPLED", 8000)
    some = sample([("", source)], Silent())
    assert 1000 < sum(map(len, some)) <= 8000 < sum(map(len, everything))
    assert set(some) < set(everything)
    assert some == sample([("", source)], Silent())
    assert {sentence.split()[0] for sentence in some} - {f"D{n}" for n in range(30)}


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content[: -1 if how == "cut" else None])
    if how == "remove":
        path.unlink()


@pytest.mark.parametrize("how", ["flip", "cut", "remove"])
def test_damage_is_detected_and_repaired(farm, tmp_path, program, how):
    wanted = program(FARM.format(farm))
    good = prepare(wanted, tmp_path, Silent()).stages[0].train(3)
    files = [p for p in tmp_path.rglob("*") if p.is_file() and p.stat().st_size]
    assert len(files) >= 12
    for path in files:
        damage(path, how)
        notes = Notes()
        batch = prepare(wanted, tmp_path, notes).stages[0].train(3)
        assert any("damaged" in note for note in notes.notes), path
        assert np.array_equal(batch.token_ids, good.token_ids)
        assert obtain(path.parent, never, Silent()) is not None


def test_entries_of_the_cache_that_changed_places_are_made_again(tmp_path, program, monkeypatch):
    for number, name in enumerate(("hens", "ducks")):
        (tmp_path / f"{name}.py").write_text(f'"""{document(number, 90)}"""')
    monkeypatch.setattr(opening, "_roots", lambda: [tmp_path])
    how, cache = "vocab=wordpiece(150) objective=mlm seq=32 batch=4 pack=true", tmp_path / "cache"
    wanted = [program(f"data=docstrings([{name}]) {how}") for name in ("hens", "ducks")]
    first = [prepare(one, cache, Silent()).stages[0].train(3).token_ids for one in wanted]
    kinds = {kind.name: sorted(kind.iterdir()) for kind in cache.iterdir()}
    assert {*kinds} == {"text", "vocabularies", "tokens", "rows", "packs"}
    every = [path for entries in kinds.values() for path in entries]
    for entries in (*kinds.values(), every):
        for path in entries:
            path.rename(path.with_suffix(".aside"))
        for path, other in zip(entries, entries[1:] + entries[:1], strict=True):
            path.with_suffix(".aside").rename(other)
        notes = Notes()
        again = [prepare(one, cache, notes).stages[0].train(3).token_ids for one in wanted]
        assert all(map(np.array_equal, first, again))
        remarked = [note.split()[0] for note in notes.notes if note.endswith("made again")]
        assert sorted(remarked) == sorted(map(str, entries))


class Stop(Exception):
    pass


class Stopping(Silent):
    """Raises at the n-th report of the preparation."""

    def __init__(self, after: int) -> None:
        self.reports = iter(range(after))

    def begin(self, *_: object) -> None:
        if next(self.reports, None) is None:
            raise Stop

    advance = end = begin


def test_stopping_at_any_word_leaves_nothing_half_made(farm, tmp_path, program):
    wanted = program(FARM.format(farm))
    good = prepare(wanted, tmp_path / "good", Silent()).stages[0].train(3)
    for after in [*range(0, 12), *range(50, 80, 3)]:
        with suppress(Stop):
            prepare(wanted, tmp_path / "cache", Stopping(after))
        assert not list((tmp_path / "cache").rglob("*.tmp-*"))
    batch = prepare(wanted, tmp_path / "cache", Silent()).stages[0].train(3)
    assert np.array_equal(batch.token_ids, good.token_ids)


def _abc(folder: Path) -> dict[str, str]:
    (folder / "a").write_bytes(b"a")
    return {"made": "abc"}


def never(folder: Path) -> dict[str, str]:
    raise AssertionError


def test_a_full_disk_and_what_a_killed_process_leaves(tmp_path: Path) -> None:
    def full(folder: Path) -> dict[str, int]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "file").write_text("")
    for place, make, size, said in (
        ("x", full, 12345, r"12,345 bytes needed.*free\)"), ("x", _abc, 10**18, "bytes needed"),
        ("file/x", _abc, 0, "cannot write"),
    ):  # fmt: skip
        with pytest.raises(CannotWriteError, match=said):
            obtain(tmp_path / place, make, Silent(), expected_bytes=size)
        assert not list(tmp_path.glob("x*tmp*"))
    for left in ("x", "x.tmp-1"):  # a folder without its manifest, and one aside
        (tmp_path / left).mkdir()
        (tmp_path / left / "a").write_bytes(b"half")
    assert obtain(tmp_path / "x", _abc, Silent()) == {"made": "abc"}
    assert (tmp_path / "x" / "a").read_bytes() == b"a"
    assert not list(tmp_path.glob("*.tmp-*"))


def test_who_waits_for_another_process_can_be_stopped_and_goes_on(tmp_path: Path) -> None:
    class Waiting(Notes):
        def advance(self, amount: int) -> None:
            if not self.tasks[1:]:
                raise Stop
            (tmp_path / "y" / "x").rename(tmp_path / "x")  # the other has made it
            fcntl.flock(held, fcntl.LOCK_UN)

    notes, facts = Waiting(), obtain(tmp_path / "y" / "x", _abc, Silent())
    with (tmp_path / "x.lock").open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        pytest.raises(Stop, obtain, tmp_path / "x", never, notes)
        assert "waiting" in notes.tasks[0]
        assert not (tmp_path / "x").exists()
        assert obtain(tmp_path / "x", never, notes) == facts
    assert not list(tmp_path.glob("*.lock"))


def test_who_waits_fails_as_the_other_process_does(tmp_path: Path) -> None:
    held, waiting = threading.Event(), threading.Event()

    class Waiting(Silent):
        def begin(self, task: str, total: int, unit: str) -> None:
            waiting.set()

    def fail(_: Path) -> dict[str, str]:
        held.set()
        assert waiting.wait(5)
        raise MissingInputError("gone", "later")

    with ThreadPoolExecutor() as pool:
        other = pool.submit(obtain, tmp_path / "x", fail, Silent())
        assert held.wait(5)
        with pytest.raises(MissingInputError, match="gone") as caught:
            obtain(tmp_path / "x", never, Waiting())
    assert caught.value.help == "later"
    assert other.exception()
    assert obtain(tmp_path / "x", _abc, Silent()) == {"made": "abc"}


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    """Tokenising five times as much text, in a process whose own memory is watched."""
    program = textwrap.dedent("""
        import resource, sys
        from pathlib import Path
        from bertc.text.cache.store import Silent
        from bertc.text.vocab.learned import learn
        from bertc.text.sources.source import Piece, TextSource
        from bertc.text.shards import tokenise
        from bertc.text.vocab.vocabulary import from_tokenizer
        from bertc.ir.vocabulary import WordPiece

        text = "One hen met two ducks by the lake. " * 5000

        def read(pieces):
            for number in range(pieces):
                yield Piece(f"{number} {text}", number % 7 == 0, len(text))

        vocabulary = from_tokenizer(learn(WordPiece(size=100), [text]), "")
        peaks = []
        for pieces in (3, 15):
            source = TextSource("x", (), "split", 0, "bytes", 0, lambda: read(pieces))
            folder = Path(sys.argv[1]) / str(pieces)
            folder.mkdir()
            tokenise(folder, source, vocabulary, 0.1, Silent())
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        print(peaks[1] - peaks[0])
    """)
    command = [sys.executable, "-c", program, str(tmp_path)]
    grown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(grown) < 40_000  # KiB; 60,000 more encoded sentences would be far more
