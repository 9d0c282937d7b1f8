"""Prepared text: the same rows from a cache, a folder and a store, however the parts were made."""

import asyncio
import contextlib
import gzip
import json
import re
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import Mock

import fsspec
import numpy as np
import pytest
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from bertc.base.diagnostics import (
    CannotWriteError,
    DataError,
    LostStoreError,
    MissingInputError,
    UsageError,
)
from bertc.base.storage import place as places, stores
from bertc.base.storage.place import FolderAt
from bertc.ir.data import Prepared
from bertc.ir.program.resolved import Resolved
from bertc.run.preparing import finish_preparing, finish_text, standing
from bertc.tasks.corpus import PreparedCorpus, prepare
from bertc.text.batches import arranged
from bertc.text.batches.stage import StageData
from bertc.text.cache.store import Silent
from bertc.text.prepared import making
from bertc.text.prepared.making import begin_preparing, make_parts
from bertc.text.prepared.opening import open_prepared, part_at, tokenizer_at
from bertc.text.rows.rewriting import part_of_document
from bertc.text.shards import spelling
from bertc.text.sources import files

from .conftest import resolved, same
from .test_parts import write
from .test_prepare import Notes, Stop, Stopping, damage, written

FORMATS = ("full-sentences", "doc-sentences", "segment-pair", "blocks", "single-segment")
SETTINGS = "vocab=wordpiece(300) seq=48 batch=4 steps=40 holdout=10% objective=mlm"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PART_BYTES", 6000)
    monkeypatch.setattr(arranged, "WINDOW", 3)
    monkeypatch.setattr(places, "FIRST_WAIT_SECONDS", 0.001)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text of eight parts."""
    write(tmp_path / "a.jsonl", 60)
    return tmp_path / "a.jsonl"


def spec(
    path: Path, more: str = "format=doc-sentences", change: tuple[str, str] = ("", "")
) -> Resolved:
    return resolved(f"data={json.dumps(str(path))} {SETTINGS.replace(*change)} {more}")


@pytest.fixture
def program(text: Path) -> Resolved:
    return spec(text)


@pytest.fixture
def place(program: Resolved, tmp_path: Path) -> FolderAt:
    """The text prepared in a folder at once."""
    return made(program, f"{tmp_path}/to", tmp_path / "cache")


@pytest.fixture
def straight(place: FolderAt) -> dict[str, bytes]:
    """The files of prepared text before a test damages them."""
    return contents(place.folder)


def made(program: Resolved, to: str, cache: Path, shares: int = 1) -> FolderAt:
    """Prepare text in so many shares, the last first."""
    place = FolderAt(to)
    for nth in reversed(range(shares)):
        work = begin_preparing(program, place, cache / str(nth), Silent())
        make_parts(work, work.plan.parts[nth::shares], Silent())
    finish_preparing(place, Silent())
    return place


def reading(to: str, tokenizer: Path, more: str = "", cache: str = "") -> Resolved:
    """The program of ``spec`` that reads prepared text."""
    data = f'data=prepared("{to}", window=3{cache})'
    settings = SETTINGS.replace("vocab=wordpiece(300)", f'vocab="{tokenizer}"')
    return resolved(f"{data} {settings} {more or 'format=doc-sentences'}")


def read_at(to: str, cache: Path, *how: str, progress: Silent | None = None) -> PreparedCorpus:
    """Prepared text as a run reads it that caches all of it in a folder."""
    return prepare(reading(to, tokenizer_at(to, cache), *how), cache, progress or Silent())


def assert_same_rows(one: StageData, other: StageData, steps: Iterable[int] = ()) -> None:
    assert one.examples == other.examples
    assert all(same(one.train(step), other.train(step)) for step in steps)
    assert all(
        same(*pair)
        for pair in zip(*(data.heldout(range(1, 3), 8) for data in (one, other)), strict=True)
    )


@pytest.mark.parametrize("more", [*(f"format={form}" for form in FORMATS), "pack=true"])
def test_rows_are_the_same_from_everywhere(text: Path, tmp_path: Path, more: str) -> None:
    program = spec(text, more)
    straight = prepare(program, tmp_path / "cache", Silent()).stages[0]
    for to, shares in ((f"{tmp_path}/here", 1), (f"memory://{tmp_path.name}/{more}", 3)):
        made(program, to, tmp_path / "made", shares)
        read = read_at(to, tmp_path / "other", more, ", cache=20k").stages[0]
        assert_same_rows(read, straight, (0, 3, 11, 12, *range(20, 30)))


def contents(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.mark.parametrize("shares", [2, 7])
def test_shares_stops_and_second_starts_change_nothing(program, straight, tmp_path, shares):
    place = FolderAt(f"{tmp_path}/two")
    for after in (3, 11, 30, 31):
        with contextlib.suppress(Stop):
            work = begin_preparing(program, place, tmp_path / "cache", Stopping(after))
            make_parts(work, work.plan.parts, Stopping(after))
    (tmp_path / "two/00003.tmp-1").mkdir()  # of a second start that was killed
    (tmp_path / "two/00003.tmp-1/train.ids").write_bytes(b"half")
    (tmp_path / "two/00003.lock").write_bytes(b"")
    for again in (shares, 1):
        made(program, place.address, tmp_path / "cache", again)
        assert contents(place.folder) == straight


def read_all(to: str, cache: Path) -> None:
    batches = read_at(to, cache).stages[0]
    for step in range(batches.examples // 4 + 1):
        batches.train(step)


@pytest.mark.parametrize(
    "file",
    ["00002/train.ids", "00001/train.documents", "heldout/heldout.ids", "tokenizer/tokenizer.json"],
)
def test_damage_of_a_folder_is_refused_and_repaired(program, place, straight, tmp_path, file):
    part = file.partition("/")[0]
    for how in ("flip", "cut", "remove"):
        damage(tmp_path / "to" / file, how)
        with pytest.raises(DataError, match=f"{part} is damaged, gone or of another"):
            read_all(place.address, tmp_path)
        said, whole = standing(place.address)
        assert f"damaged  1: {part}" in said
        assert not whole
        if part != "heldout":  # which the end makes anew
            with pytest.raises(DataError, match=f"the first is {part}"):
                finish_preparing(place, Silent())
        made(program, place.address, tmp_path / "cache")
        assert contents(place.folder) == straight


def test_another_preparation_is_refused(text: Path, place: FolderAt, tmp_path: Path) -> None:
    for old, new, said in (
        ("(300)", "(200)", r"vocab: wordpiece\(size=300\) there, .*200\) here"),
        ("seq=48", "seq=32", "rows: doc-sentences of 48 there, doc-sentences of 32 here"),
    ):
        other = spec(text, change=(old, new))
        with pytest.raises(DataError, match=f"holds another preparation: {said}"):
            begin_preparing(other, place, tmp_path / "cache", Silent())
    longer = spec(text, "format=doc-sentences batch_warmup=rising(2, 50%, by=1)")
    begin_preparing(longer, place, tmp_path / "cache", Silent())
    with pytest.raises(DataError, match="another tokenizer"):
        open_prepared(Prepared(path=place.address), "", tmp_path / "cache", Silent())
    two = resolved(f'data="{text}" + docstrings {SETTINGS}')
    with pytest.raises(UsageError, match="one is prepared at a time"):
        begin_preparing(two, place, tmp_path / "cache", Silent())


def test_a_place_is_refused_before_the_text_is_read(text, place, tmp_path, monkeypatch):
    program, other = spec(text), spec(text, change=("10%", "20%"))
    (tmp_path / "runs").mkdir()
    for name in ("runs/notes.txt", "file"):
        (tmp_path / name).write_text("")
    FolderAt("memory://others").write("x/y.txt", b"")
    reading_text = Mock(side_effect=AssertionError("the text is read"))
    monkeypatch.setattr(making, "vocabulary_for", reading_text)
    for to, kind, said in (
        (f"{tmp_path}/runs", UsageError, "holds other files: notes.txt"),
        ("memory://others", UsageError, "holds other files: x"),
        (f"{tmp_path}/file", CannotWriteError, "file exists"),
        (place.address, DataError, "holds another preparation: holdout: 0.1 there, 0.2 here"),
    ):
        with pytest.raises(kind, match=said):
            begin_preparing(other, FolderAt(to), tmp_path / "cache", Silent())
    with pytest.raises(AssertionError, match="the text is read"):
        begin_preparing(program, FolderAt(f"{tmp_path}/new"), tmp_path / "cache", Silent())
    assert "0 of 8" in standing(f"{tmp_path}/new")[0]
    # A later worker has the tokenizer of the first.
    work = begin_preparing(program, place, tmp_path / "none", Silent())
    assert spelling(work.vocabulary) == work.plan.tokenizer


def test_a_damaged_plan_and_parts_of_another_preparation_are_made_again(
    text, place, straight, tmp_path
):
    made(spec(text, change=("48", "32")), f"{tmp_path}/other", tmp_path / "cache")
    shutil.rmtree(tmp_path / "to/00003")
    shutil.copytree(tmp_path / "other/00003", tmp_path / "to/00003")
    (tmp_path / "to/plan.json").write_text('{"parts": [')
    made(spec(text), place.address, tmp_path / "cache", 2)
    assert contents(place.folder) == straight
    (tmp_path / "to/corpus.json").unlink()
    assert "not finished: --finish" in standing(place.address)[0]
    with pytest.raises(MissingInputError, match="not prepared to its end"):
        open_prepared(Prepared(path=place.address), "", tmp_path / "cache", Silent())
    (tmp_path / "to/00003/train.ids").write_bytes(b"")
    (tmp_path / "to/00004/manifest.json").unlink()
    with pytest.raises(DataError, match="1 part missing, 1 damaged, the first is 00003"):
        finish_preparing(place, Silent())
    text, complete = standing(place.address)
    assert re.search("missing  1: 00004(.|\n)*damaged  1: 00003", text)
    assert not complete
    damage(tmp_path / "to/00005/train.ids", "flip")
    assert part_at(place, "00005", checked_bytes=10)
    assert "damaged  2: 00003, 00005" in standing(place.address)[0]


@pytest.mark.parametrize("to", ["{}/to", "memory://{}"])
def test_where_no_document_is_held_out_the_last_ones_are(text, tmp_path, to):
    program = spec(text, change=("10%", "0.0001%"))
    straight = prepare(program, tmp_path / "cache", Silent())
    assert straight.texts[0].facts["heldout"]["sentences"]
    place = made(program, to.format(tmp_path), tmp_path / "made", 3)
    corpus = finish_preparing(place, Silent())
    assert corpus == finish_preparing(made(program, place.address, tmp_path / "made"), Silent())
    for split in ("train", "heldout"):
        assert corpus.facts[split] == straight.texts[0].facts[split]
    read = read_at(place.address, tmp_path / "other")
    assert np.array_equal(read.texts[0].counts, straight.texts[0].counts)
    assert_same_rows(read.stages[0], straight.stages[0])


def test_text_of_which_little_is_held_out_says_so(tmp_path: Path) -> None:
    split: dict[str, list[str]] = {"train": [], "heldout": []}
    for text in (f"D{n}. {'One hen. ' * 99}" for n in range(99)):
        split[part_of_document(text.encode(), 0.1)].append(text)
    ducks = (f"Duck {n}." for n in range(99))
    short = next(duck for duck in ducks if part_of_document(duck.encode(), 0.1) == "heldout")
    for held, said in ((split["heldout"][:3], False), ([], True)):
        path = written(tmp_path / f"{len(held)}.jsonl", short, *split["train"][:27], *held)
        program, notes = spec(path), Notes()
        prepare(program, tmp_path / "cache", notes)
        to = made(program, f"{tmp_path}/{len(held)}", tmp_path / "made").address
        read_at(to, tmp_path / "cache", progress=notes)
        few = "tokens are held out, far below holdout=0.1"
        assert sum(few in note for note in notes.notes) == 2 * said
        assert (few in finish_text(to)) == said


def test_workers_make_the_same_parts_and_count_what_they_do(program, straight, tmp_path):
    work = begin_preparing(program, FolderAt(f"{tmp_path}/two"), tmp_path / "cache", Silent())
    counted = Mock()
    make_parts(work, work.plan.parts, counted, workers=2)
    size = (tmp_path / "a.jsonl").stat().st_size
    assert counted.begin.call_args.args[1] == size
    assert sum(call.args[0] for call in counted.advance.call_args_list) == size
    finish_preparing(work.place, Silent())
    assert contents(work.place.folder) == straight


def test_damaged_inputs_are_named(tmp_path, call, monkeypatch):
    monkeypatch.setattr(files, "DECODED_BYTES", 0)
    write(tmp_path / "a.jsonl", 20)
    (tmp_path / "b.txt").write_bytes(b"A hen. " * 9999 + b"\xff\xfe" * 9)
    raw = gzip.compress((tmp_path / "a.jsonl").read_bytes() * 300)
    (tmp_path / "c.jsonl.gz").write_bytes(raw[: len(raw) // 2])
    (tmp_path / "d.jsonl").write_text(json.dumps({"text": "One duck."}) + "\nno JSON\n")
    (tmp_path / "e.txt").write_text("")
    names = ["b.txt", "c.jsonl.gz", "d.jsonl:2"]
    for name in names:
        words = preparing(f"{tmp_path}/[a{name[0]}e].*", tmp_path / name[0])
        code, _, error = call(*words)
        assert (code, name in error) == (65, True)
        assert f"1 input without text: {tmp_path}/e.txt" in error
    assert call(*preparing(f"{tmp_path}/a.jsonl", tmp_path / "a"))[0] == 0
    for vocab in ("wordpiece(300)", f'"{tmp_path}/a/tokenizer"'):  # reading for it, or for parts
        code, _, err = call(*preparing(f"{tmp_path}/[a-e].*", tmp_path / "all", vocab))
        error = err.rpartition("error: ")[2].splitlines()
        assert [name in line for name, line in zip(names, error, strict=False)] == [True] * 3
        shutil.rmtree(tmp_path / "all")
        (tmp_path / "f.jsonl").write_text("no JSON")
        words = preparing(f"{tmp_path}/f.jsonl", tmp_path / f"f{len(vocab)}", vocab)
        assert (code, call(*words)[0]) == (65, 65)
        write(tmp_path / "f.jsonl", 20)  # nothing is prepared yet
        assert call(*words)[0] == 0


def preparing(data: str, to: Path, vocab: str = "wordpiece(300)") -> tuple[str, ...]:
    settings = f"{SETTINGS.replace('wordpiece(300)', vocab)} layers=1 hidden=16 heads=1"
    return "prepare", f'data="{data}" {settings}', "--to", str(to), "--workers", "1"


def test_commands_say_what_is_missing_and_how_it_is_made(text, tmp_path, call):
    (tmp_path / "a.bertc").write_text(f'data="{text}" {SETTINGS} layers=1 hidden=64')
    file, to = str(tmp_path / "a.bertc"), str(tmp_path / "to")
    small = ("--set", "seq=32")
    part = f"bertc prepare {file} --set seq=32 --to {to} --part 8/8 makes it"
    for arguments, code, said in (
        ((file, "--part", "x"), 2, "--part 17/400 is share 17 of 400"),
        ((file, "--part", "1/0"), 2, "--part 17/400 is share 17 of 400"),
        ((file, "--part", "5/3"), 2, "of 3 shares there is no number 5"),
        ((file, *small, "--part", "9/9"), 0, "the text has 8 parts, so this share has"),
        (("--status",), 1, "missing  8: 00000, 00001"),
        ((file, *small, "--part", "1/2"), 0, "share 1 of 2, 4 parts, is prepared"),
        ((file, *small, "--part", "2/4"), 0, "share 2 of 4, 2 parts, is prepared"),
        ((file, *small, "--part", "4/8"), 0, "share 4 of 8, 1 part, is prepared"),
        (("--finish",), 65, "7 of 8 parts are whole"),
        ((file, *small), 0, "tokens of 51 documents to train on"),
        (("--status",), 0, "8 of 8"),
        (("--finish", "--workers", "2"), 2, "--status and --finish go with --to alone"),
    ):
        one = () if arguments[0].startswith("--") else ("--workers", "1")
        found, *printed = call("prepare", *arguments, *one, "--to", to)
        assert (found, said in "".join(printed)) == (code, True), arguments
        assert code != 65 or part in "".join(printed)


class Faulty(MemoryFileSystem):
    """A store whose every answer may be late, wrong or none."""

    protocol = "faulty"
    faults: ClassVar[list[Exception | bytes]] = []

    def cat_file(self, path: str, *args: Any, **kwargs: Any) -> bytes:
        return self._answer(super().cat_file(path, *args, **kwargs))

    def get_file(self, rpath: str, lpath: str, **kwargs: Any) -> None:
        Path(lpath).write_bytes(self._answer(super().cat_file(rpath)))

    def _answer(self, raw: bytes) -> bytes:
        if not self.faults:
            return raw
        fault = self.faults.pop()
        if isinstance(fault, Exception):
            raise fault
        return raw[:3] + fault


fsspec.register_implementation("faulty", Faulty, clobber=True)


@pytest.fixture
def store(program: Resolved, tmp_path: Path) -> Iterator[str]:
    to = f"faulty://{tmp_path.name}"
    made(program, to, tmp_path / "made")
    yield to
    Faulty.faults.clear()


def test_a_store_that_answers_late_or_wrongly_is_read_again(store, program, tmp_path):
    straight = prepare(program, tmp_path / "cache", Silent()).stages[0]
    there = reading(store, tokenizer_at(store, tmp_path / "cache"))
    Faulty.faults[:] = [TimeoutError(), b"cut", ConnectionError(), OSError("503 slow down")]
    read = prepare(there, tmp_path / "other", Silent()).stages[0]
    for step in range(8):
        Faulty.faults[:] = [TimeoutError(), b"wrong"]
        assert same(read.train(step), straight.train(step))


@pytest.mark.parametrize(("fault", "kind", "said"), [
    (TimeoutError("too slow"), LostStoreError, r"cannot .*: \d+ tries in 0 s, too slow"),
    (TimeoutError(), LostStoreError, "tries in 0 s, no whole answer came in time"),
    (AttributeError("no attribute 'strip'"), LostStoreError, "no whole answer came in time"),
    (b"wrong", MissingInputError, "tries in 0 s, .* not what the manifest says"),
    (PermissionError("Forbidden"), MissingInputError, "cannot read .*: Forbidden"),
])  # fmt: skip
def test_a_store_that_stays_wrong_is_named(store, tmp_path, fault, kind, said):
    read = read_at(store, tmp_path / "other").stages[0]
    Faulty.faults[:] = [fault] * 1000
    with pytest.raises(kind, match=said):
        [read.train(step) for step in range(40)]


def test_all_readers_give_a_store_up_together(monkeypatch: pytest.MonkeyPatch) -> None:
    place, clock, calls = FolderAt("memory://nowhere"), [0.0], list[str]()
    reported = list[str]()

    def slow(path: str) -> bytes:
        calls.append(path)
        clock.append(clock[-1] + 15)
        raise TimeoutError("slow")

    passing = {"monotonic": lambda: clock[-1], "sleep": lambda s: clock.append(clock[-1] + s)}
    monkeypatch.setattr(places, "time", SimpleNamespace(**{**vars(time), **passing}))
    monkeypatch.setattr(places, "FIRST_WAIT_SECONDS", 1.0)
    monkeypatch.setattr(place._files, "cat_file", slow)
    # What others have imported may handle what is logged, which else is printed.
    monkeypatch.setattr(places, "_warn", lambda text, *args: reported.append(text % args))
    for pause, tries, said in ((0, 5, "5 tries in 75"), (50, 1, "6 tries in 140"), (100, 5, "5")):
        calls.clear()
        clock.append(clock[-1] + pause)
        pytest.raises(LostStoreError, place.read, "plan.json", 1).match(f"{said}.*, slow")
        assert len(calls) == tries
    place.write("a", b"")
    first, anew, over = reported
    for line in (first, anew):
        assert line.startswith("warning: cannot read memory://nowhere/plan.json: slow; it is tried")
    assert over == "memory://nowhere answers again"


class Stuck(AsyncFileSystem):
    """A store that takes the beginning of a file, and then nothing."""

    protocol = "stuck"

    async def _pipe_file(self, path: str, value: bytes, **_: Any) -> None:
        await asyncio.sleep(99)

    async def _put_file(self, lpath: str, rpath: str, callback: Any, **_: Any) -> None:
        callback.relative_update(1)
        await asyncio.sleep(99)


def test_writing_to_a_store_ends_without_headway(tmp_path, monkeypatch):
    fsspec.register_implementation("stuck", Stuck, clobber=True)
    monkeypatch.setattr(stores, "IDLE_SECONDS", 0.01)
    (tmp_path / "a").write_bytes(b"content")
    place = FolderAt("stuck://x")
    for putting in (partial(place.write, "a", b""), partial(place.write, "a", tmp_path / "a")):
        with pytest.raises(CannotWriteError, match=r"cannot write stuck://x/a: .* was taken in 0"):
            putting()


def test_a_store_that_never_answered_is_not_tried_again(tmp_path: Path) -> None:
    FolderAt("faulty://x").write("a", b"")
    for fault, base, help in (
        ("Connection", Exception, "check the address"),
        ("NoCredentials", Exception, "environment"),
        ("NoBucket", FileNotFoundError, "check the name of the bucket"),
    ):
        error = type(f"{fault}Error", (base,), {})("refused, bucket does not exist")
        Faulty.faults[:] = [error] * 2
        with pytest.raises(MissingInputError, match=r"cannot read faulty://x/a: refused") as error:
            FolderAt("faulty://x").read("a", 1)
        assert (help in str(error.value.help), len(Faulty.faults)) == (True, 1)
    Faulty.faults.clear()


@pytest.mark.parametrize("to", ["{}/to", "memory://{}/missing"])
def test_check_names_missing_parts(program, tmp_path, call, to):
    place = made(program, to.format(tmp_path), tmp_path / "made")
    text = f'data=prepared("{place.address}") layers=1 hidden=64'
    assert call("check", text)[0] == 0
    place.remove("00003")
    code, out, _ = call("check", text)
    assert (code, f"{place.address} lacks 1 part: 00003" in out) == (1, True)
    assert f"--to {place.address} --part 4/8 makes it" in out


def test_a_cache_below_one_part_is_remarked(store, tmp_path):
    for cache, said in (("10", True), ("1M", False)):
        read_at(store, tmp_path / "other", "", f", cache={cache}", progress=(notes := Notes()))
        assert any("is less than a part of" in note for note in notes.notes) == said


@pytest.mark.parametrize("file", ["00003/train.ids", "tokenizer/vocab.txt", "heldout/heldout.ids"])
def test_damage_of_the_same_size_in_a_store_is_mended_as_its_message_says(
    text: Path, tmp_path: Path, command: Any, file: str
) -> None:
    spec, to = tmp_path / "a.bertc", f"memory://{tmp_path.name}"
    spec.write_text(f'data="{text}" {SETTINGS} layers=1 hidden=64 format=doc-sentences')
    assert command("prepare", str(spec), "--to", to, "--workers", "1") == 0
    place = FolderAt(to)
    whole = place.read(file, 1 << 20)
    place.write(file, bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(MissingInputError, match=f"cannot read {to}/{file}: .*manifest") as error:
        read_all(to, tmp_path / "damaged")
    commands = re.findall(r"bertc (prepare .*?)(?: makes|;|$)", error.value.help)
    for words in map(shlex.split, commands):
        assert command(*words, *(() if "--finish" in words else ("--workers", "1"))) == 0
    assert place.read(file, 1 << 20) == whole
    read_all(to, tmp_path / "repaired")


@pytest.mark.parametrize(("address", "said"), [
    ("nowhere", "there is no prepared text at nowhere"),
    ("s3:/bucket/x", "did you mean s3://bucket/x?"),
    ("s3//bucket/x", "did you mean s3://bucket/x?"),
    ("s3:bucket/x", "did you mean s3://bucket/x?"),
])  # fmt: skip
def test_an_address_without_text(tmp_path: Path, address: str, said: str) -> None:
    refused = pytest.raises(MissingInputError, tokenizer_at, address, tmp_path)
    assert said in f"{refused.value.message}; {refused.value.help}"
