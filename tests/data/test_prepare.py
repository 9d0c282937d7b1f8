"""What is prepared is exact, whole or absent, made once, and made again when it is damaged."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from multiprocessing.queues import SimpleQueue
from pathlib import Path

import numpy as np
import pytest

from bertc.api import resolve
from bertc.base.diagnostics import CannotWriteError, DataError
from bertc.data.cache import store
from bertc.data.cache.progress import Silent
from bertc.data.cache.store import obtain
from bertc.data.corpus import prepare
from bertc.data.rows.sample import sample
from bertc.data.rows.tokenise import part_of_document
from bertc.data.sources.opening import open_source
from bertc.data.sources.sentences import split_sentences
from bertc.ir.data import Files
from bertc.ir.program.resolved import Resolved
from tests.data.conftest import Make

Program = Callable[..., Resolved]


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
    (source,) = corpus.stage(0).train_sources
    expected = []
    for text, _, _, _ in open_source(Files(path=str(farm))).read():
        if part_of_document(text.encode(), 0.3) == "train":
            for place, sentence in enumerate(split_sentences(text, "split")):
                spaced = f" {sentence}" if vocab.startswith("bpe") and place else sentence
                encoding = corpus.vocabulary.tokenizer.encode(spaced, add_special_tokens=False)
                expected += encoding.ids
            expected.append(corpus.vocabulary.sep)
    assert source.ids.tolist() == expected
    counts = np.bincount(expected, minlength=corpus.vocabulary.size).astype(float)
    counts[corpus.vocabulary.sep] = 0
    assert np.allclose(corpus.vocabulary.unigram, counts / counts.sum())


def test_a_run_goes_on_with_the_unigrams_that_it_learned(farm: Path, tmp_path: Path) -> None:
    """Those of runs made before were learned otherwise; new runs take none from their cache."""
    spec = f'layers=1 hidden=8 heads=1 seq=16 batch=2 steps=2 data=files("{farm}")'
    program = resolve(f"{spec} vocab=unigram(200)")
    before = prepare(resolve(f"{spec} vocab=unigram(40)"), tmp_path, Silent()).vocabulary
    before.save(tmp_path / "run")
    again = prepare(program, tmp_path, Silent(), learned=tmp_path / "run").vocabulary
    assert again.tokenizer.to_str() == before.tokenizer.to_str()
    anew = prepare(program, tmp_path, Silent(), learned=tmp_path / "none").vocabulary
    assert anew.size > before.size


def test_tokens_that_the_text_does_not_give_are_told_of_once(farm: Path, tmp_path: Path) -> None:
    spec = "layers=1 hidden=8 heads=1 seq=16 batch=2 steps=2 vocab=wordpiece(9999)"
    resolved, notes = resolve(f'{spec} data=files("{farm}")'), Notes()
    for _ in range(2):
        prepare(resolved, tmp_path, notes)
    assert [note for note in notes.notes if "gives only" in note] == notes.notes[:1]


def test_special_tokens_in_the_text_are_text(made: Make, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", "One [SEP] and [MASK] hen. Two.", "Three [CLS] hens.")
    corpus = made(
        "vocab=wordpiece(100) objective=mlm format=doc-sentences seq=64 batch=4", data=f'"{path}"'
    )
    (source,) = corpus.stage(0).train_sources
    ids = source.ids.tolist()
    assert corpus.vocabulary.mask not in ids
    assert ids.count(corpus.vocabulary.sep) == corpus.facts[0]["train"]["documents"]


@pytest.mark.parametrize(
    ("texts", "train", "heldout"),
    [
        (["One hen. Two hens. Three hens."], 2, 1),
        (["One hen. Two hens."] * 20, 38, 2),
        (["Zero.", "One hen. " * 300], 298, 3),
        (["One hen. " * 300, "Zero. Nil."], 300, 2),
    ],
)
def test_a_part_is_always_held_out(
    made: Make, tmp_path: Path, texts: list[str], train: int, heldout: int
) -> None:
    path = written(tmp_path / "a.jsonl", *texts)
    corpus = made(
        "vocab=wordpiece(100) objective=mlm format=doc-sentences seq=64 batch=4 holdout=0.01",
        data=f'"{path}"',
    )
    facts = corpus.facts[0]
    assert facts["train"]["sentences"] + facts["heldout"]["sentences"] == sum(
        len(split_sentences(text, "split")) for text in texts
    )
    assert facts["heldout"]["sentences"] == pytest.approx(heldout, abs=1)
    assert facts["train"]["sentences"] == pytest.approx(train, abs=2)
    for source in (*corpus.stage(0).train_sources, *corpus.stage(0).heldout_sources):
        assert source.ids[-1] == corpus.vocabulary.sep
        assert (source.ids == corpus.vocabulary.sep).sum() >= 1


def test_too_little_text(made: Make, tmp_path: Path) -> None:
    for name, texts in (("a", ["One hen."]), ("b", [""])):
        path = written(tmp_path / f"{name}.jsonl", *texts)
        with pytest.raises(DataError):
            made("vocab=wordpiece(100) objective=mlm seq=32 batch=4", data=f'"{path}"')


def test_preparing_again_reads_nothing(farm: Path, tmp_path: Path, program: Program) -> None:
    asked = program(f'data="{farm}" vocab=wordpiece(200) objective=mlm seq=32 batch=4 steps=9')
    first, again = Notes(), Notes()
    one = prepare(asked, tmp_path, first)
    two = prepare(asked, tmp_path, again)
    assert len(first.tasks) == 3
    assert not again.tasks
    assert one.fingerprint == two.fingerprint
    moved = shutil.copy(farm, tmp_path / "moved.jsonl")
    other = program(f'data="{moved}" vocab=wordpiece(200) objective=mlm seq=32 batch=4 steps=9')
    assert prepare(other, tmp_path, Silent()).fingerprint == one.fingerprint
    changed = program(f'data="{farm}" vocab=wordpiece(200) objective=mlm seq=64 batch=4 steps=9')
    assert prepare(changed, tmp_path, Silent()).fingerprint != one.fingerprint


def test_the_sample_is_bounded_fair_and_fixed(farm: Path) -> None:
    source = open_source(Files(path=str(farm)))
    everything = sample([("", source)], Silent())
    some = sample([("", source)], Silent(), most=8000)
    assert 1000 < sum(map(len, some)) <= 8000 < sum(map(len, everything))
    assert set(some) < set(everything)
    assert some == sample([("", source)], Silent(), most=8000)
    assert {sentence.split()[0] for sentence in some} - {f"D{n}" for n in range(30)}


def damage(path: Path, how: str) -> None:
    content = bytearray(path.read_bytes())
    if how == "flip":
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
    elif how == "cut":
        path.write_bytes(content[:-1])
    else:
        path.unlink()


@pytest.mark.parametrize("how", ["flip", "cut", "remove"])
def test_damage_is_detected_and_repaired(
    farm: Path, tmp_path: Path, program: Program, how: str
) -> None:
    asked = program(f'data="{farm}" vocab=wordpiece(200) objective=mlm seq=32 batch=4 steps=9')
    good = prepare(asked, tmp_path, Silent()).stage(0).train(3)
    files = [p for p in tmp_path.rglob("*") if p.is_file() and p.stat().st_size]
    assert len(files) >= 12
    for path in files:
        damage(path, how)
        notes = Notes()
        batch = prepare(asked, tmp_path, notes).stage(0).train(3)
        assert any("damaged" in note for note in notes.notes), path
        assert np.array_equal(batch.token_ids, good.token_ids)
        assert store.holds(path.parent)


class Stop(Exception):
    pass


class Stopping(Silent):
    """Raises at the n-th word from the preparation."""

    def __init__(self, after: int) -> None:
        self.left = after

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Stop

    def begin(self, task: str, total: int, unit: str) -> None:
        self._count()

    def advance(self, amount: int) -> None:
        self._count()

    def end(self) -> None:
        self._count()


def test_stopping_at_any_word_leaves_nothing_half_made(
    farm: Path, tmp_path: Path, program: Program
) -> None:
    asked = program(f'data="{farm}" vocab=wordpiece(200) objective=mlm seq=32 batch=4 steps=9')
    good = prepare(asked, tmp_path / "good", Silent()).stage(0).train(3)
    for after in [*range(0, 12), *range(50, 80, 3)]:
        try:
            prepare(asked, tmp_path / "cache", Stopping(after))
        except Stop:
            assert not list((tmp_path / "cache").rglob("*.tmp-*"))
    batch = prepare(asked, tmp_path / "cache", Silent()).stage(0).train(3)
    assert np.array_equal(batch.token_ids, good.token_ids)


def obtain_until(folder: Path, wanted: int) -> None:
    """Make a folder, killed at call ``wanted`` of the system if there are so many."""
    calls = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal calls
        if event in ("open", "os.rename", "os.mkdir") and str(folder) in str(arguments[0]):
            calls += 1
            if calls == wanted:
                os.kill(os.getpid(), signal.SIGKILL)

    def make(into: Path) -> dict[str, str]:
        for name in "abc":
            (into / name).write_bytes(name.encode() * 999)
        return {"made": "abc"}

    sys.addaudithook(hook)
    obtain(folder / "x", make, Silent())


def killed_in_turn(folder: Path, ends: SimpleQueue[list[int]]) -> None:
    """Copies of this process, which has one thread, killed at one call after the other."""
    codes = [-1]
    while codes[-1]:
        if not (child := os.fork()):
            obtain_until(folder / str(len(codes)), len(codes))
            os._exit(0)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    ends.put(codes[1:-1])


def test_killed_at_every_call_of_the_system(processes: ForkServerContext, tmp_path: Path) -> None:
    ends = processes.SimpleQueue()
    process = processes.Process(target=killed_in_turn, args=(tmp_path, ends))
    process.start()
    process.join()
    codes = ends.get()
    assert len(codes) >= 12
    assert set(codes) == {-signal.SIGKILL}
    for number in range(1, len(codes) + 1):
        folder = tmp_path / str(number)
        intact = store._intact(folder / "x")
        assert intact in (None, {"made": "abc"})
        assert obtain(folder / "x", _abc, Silent()) == {"made": "abc"}
        assert not list(folder.glob("*.tmp-*")) or intact


def _abc(folder: Path) -> dict[str, str]:
    (folder / "a").write_bytes(b"a")
    return {"made": "abc"}


def make_slowly(folder: Path) -> dict[str, int]:
    with (folder.parent / "log").open("a") as log:
        log.write("made\n")
    time.sleep(0.4)
    (folder / "a").write_bytes(b"a")
    return {"made": 1}


def test_one_process_makes_and_the_others_wait(
    processes: ForkServerContext, tmp_path: Path
) -> None:
    asked = (tmp_path / "x", make_slowly, Silent())
    members = [processes.Process(target=obtain, args=asked) for _ in range(3)]
    for member in members:
        member.start()
    for member in members:
        member.join(30)
    assert [member.exitcode for member in members] == [0, 0, 0]
    assert (tmp_path / "log").read_text() == "made\n"


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(folder: Path) -> dict[str, int]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(CannotWriteError) as caught:
        obtain(tmp_path / "x", full, Silent(), expected_bytes=12345)
    assert "12,345 bytes needed" in caught.value.message
    assert "free)" in caught.value.message
    assert not list(tmp_path.glob("x*tmp*"))
    with pytest.raises(CannotWriteError, match="bytes needed"):
        obtain(tmp_path / "x", _abc, Silent(), expected_bytes=10**18)
    assert obtain(tmp_path / "x", _abc, Silent()) == {"made": "abc"}


def test_a_cache_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotWriteError, match="cannot write"):
        obtain(tmp_path / "file" / "x", _abc, Silent())


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path) -> None:
    """Tokenising five times as much text, in a process whose own memory is watched."""
    program = textwrap.dedent("""
        import resource, sys
        from pathlib import Path
        from bertc.data.cache.progress import Silent
        from bertc.data.vocab.learned import learn
        from bertc.data.sources.source import Piece, TextSource
        from bertc.data.rows.tokenise import tokenise
        from bertc.data.vocab.vocabulary import from_tokenizer
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
