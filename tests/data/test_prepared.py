"""Prepared text: the same rows from a cache, a folder and a store, however the parts were made."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from bertc.base.diagnostics import BertcError, DataError, MissingInputError, UsageError
from bertc.base.storage import place as places
from bertc.base.storage.place import FolderAt
from bertc.data.batches import arranged
from bertc.data.cache.store import Silent
from bertc.data.corpus import prepare
from bertc.data.prepared import opening
from bertc.data.prepared.making import begin_preparing, finish_preparing, make_parts
from bertc.data.prepared.opening import open_prepared, tokenizer_at
from bertc.data.sources import files
from bertc.ir.data import Prepared
from bertc.ir.program.resolved import Resolved
from bertc.run.preparing import standing

from .conftest import resolved, same
from .test_parts import write
from .test_prepare import Stop, Stopping, damage

FORMATS = ("full-sentences", "doc-sentences", "segment-pair", "blocks", "single-segment")
SETTINGS = "vocab=wordpiece(300) seq=48 batch=4 steps=40 holdout=10% objective=mlm"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PART_BYTES", 6000)
    monkeypatch.setattr(arranged, "WINDOW", 3)
    monkeypatch.setattr(places, "FIRST_WAIT_SECONDS", 0.001)


def spec(path: Path, more: str = "format=doc-sentences", data: str = "") -> Resolved:
    return resolved(f"data={data or json.dumps(str(path))} {SETTINGS} {more}")


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


@pytest.mark.parametrize("more", [*(f"format={form}" for form in FORMATS), "pack=true"])
def test_rows_are_the_same_from_everywhere(tmp_path: Path, more: str) -> None:
    write(tmp_path / "a.jsonl", 60)
    program = spec(tmp_path / "a.jsonl", more)
    straight = prepare(program, tmp_path / "cache", Silent()).stage(0)
    for to, shares in ((f"{tmp_path}/here", 1), (f"memory://{tmp_path.name}/{more}", 3)):
        made(program, to, tmp_path / "made", shares)
        there = reading(to, tmp_path / "here/tokenizer", more, ", cache=20k")
        read = prepare(there, tmp_path / "other", Silent()).stage(0)
        assert read.examples == straight.examples
        for step in (0, 3, 11, 12, *range(20, 30)):
            assert same(read.train(step), straight.train(step))
        pairs = zip(read.heldout(2, 8), straight.heldout(2, 8), strict=True)
        assert all(same(one, other) for one, other in pairs)


def test_the_shards_read_longest_ago_make_room(tmp_path: Path) -> None:
    for age, name in enumerate(("now", "before", "old", "oldest")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "manifest.json").write_bytes(b"m" * 100)
        if age:
            os.utime(tmp_path / name / "manifest.json", (1000 - age, 1000 - age))
    (tmp_path / "half.tmp-1").mkdir()  # of a process that copies a shard now
    opening._make_room(tmp_path, 250)
    assert {path.name for path in tmp_path.iterdir()} == {"now", "before", "half.tmp-1"}
    opening._make_room(tmp_path, 50)
    assert {path.name for path in tmp_path.iterdir()} == {"now", "half.tmp-1"}


def contents(place: FolderAt) -> dict[str, bytes]:
    paths = [path for path in place.folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    return {str(path.relative_to(place.folder)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("shares", [2, 7])
def test_shares_stops_and_second_starts_change_nothing(tmp_path: Path, shares: int) -> None:
    write(tmp_path / "a.jsonl", 60)
    program = spec(tmp_path / "a.jsonl")
    straight = contents(made(program, f"{tmp_path}/one", tmp_path / "cache"))
    place = FolderAt(f"{tmp_path}/two")
    for after in (3, 11, 30, 31):
        with contextlib.suppress(Stop):
            work = begin_preparing(program, place, tmp_path / "cache", Stopping(after))
            make_parts(work, work.plan.parts, Stopping(after))
    assert contents(made(program, place.address, tmp_path / "cache", shares)) == straight
    assert contents(made(program, place.address, tmp_path / "cache")) == straight


def test_a_damaged_part_is_found_and_made_again(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", 60)
    program = spec(tmp_path / "a.jsonl")
    place = made(program, f"{tmp_path}/to", tmp_path / "cache")
    straight = contents(place)
    (tmp_path / "to/00002/train.ids").write_bytes(b"")
    (tmp_path / "to/corpus.json").unlink()
    assert "00002" in standing(place.address)
    with pytest.raises(DataError, match="1 part of .* is missing or damaged, the first is 00002"):
        finish_preparing(place, Silent())
    with pytest.raises(MissingInputError, match="not prepared to its end"):
        open_prepared(Prepared(path=place.address), "", tmp_path / "cache", Silent())
    assert contents(made(program, place.address, tmp_path / "cache")) == straight


def read_all(program: Resolved, cache: Path) -> None:
    batches = prepare(program, cache, Silent()).stage(0)
    for step in range(batches.examples // 4 + 1):
        batches.train(step)


@pytest.mark.parametrize(
    "name", ["00002/train.ids", "00001/train.documents", "heldout/heldout.ids"]
)
@pytest.mark.parametrize("how", ["flip", "cut", "remove"])
def test_damage_of_a_folder_is_refused_and_repaired(tmp_path: Path, name: str, how: str) -> None:
    write(tmp_path / "a.jsonl", 60)
    program = spec(tmp_path / "a.jsonl")
    place = made(program, f"{tmp_path}/to", tmp_path / "cache")
    straight = contents(place)
    damage(tmp_path / "to" / name, how)
    program_there = reading(place.address, tmp_path / "to/tokenizer")
    with pytest.raises(DataError, match=f"{name.split('/')[0]} is damaged, gone or of another"):
        read_all(program_there, tmp_path)
    if "heldout" not in name:
        assert name.split("/")[0] in standing(place.address)
    assert contents(made(program, place.address, tmp_path / "cache")) == straight


def test_a_damaged_tokenizer_is_named_and_repaired(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", 60)
    place = made(spec(tmp_path / "a.jsonl"), f"{tmp_path}/to", tmp_path / "cache")
    straight = contents(place)
    damage(tmp_path / "to/tokenizer/tokenizer.json", "flip")
    with pytest.raises(DataError, match="tokenizer is damaged, gone or of another"):
        tokenizer_at(place.address, tmp_path)
    assert contents(made(spec(tmp_path / "a.jsonl"), place.address, tmp_path / "cache")) == straight


def test_another_preparation_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", 60)
    place = made(spec(tmp_path / "a.jsonl"), f"{tmp_path}/to", tmp_path / "cache")
    for old, new in (("holdout=10%", "holdout=20%"), ("wordpiece(300)", "wordpiece(200)")):
        other = resolved(f'data="{tmp_path}/a.jsonl" {SETTINGS.replace(old, new)}')
        with pytest.raises(DataError, match="holds another preparation: .* differ"):
            begin_preparing(other, place, tmp_path / "cache", Silent())
    with pytest.raises(DataError, match="another tokenizer"):
        open_prepared(Prepared(path=place.address), "", tmp_path / "cache", Silent())
    two = spec(tmp_path / "a.jsonl", data=f'"{tmp_path}/a.jsonl" + docstrings')
    with pytest.raises(UsageError, match="one is prepared at a time"):
        begin_preparing(two, place, tmp_path / "cache", Silent())


class Faulty(MemoryFileSystem):
    """A store whose every answer may be late, wrong or none."""

    protocol = "faulty"
    faults: ClassVar[list[Exception | bytes]] = []

    def cat_file(self, path: str, *args: Any, **kwargs: Any) -> bytes:
        raw = super().cat_file(path, *args, **kwargs)
        return self._answer(raw)

    def get_file(self, rpath: str, lpath: str, **kwargs: Any) -> None:
        Path(lpath).write_bytes(self._answer(super().cat_file(rpath)))

    def _answer(self, raw: bytes) -> bytes:
        if not self.faults:
            return raw
        fault = self.faults.pop()
        if isinstance(fault, Exception):
            raise fault
        return raw[:3] + fault


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    write(tmp_path / "a.jsonl", 60)
    fsspec.register_implementation("faulty", Faulty, clobber=True)
    to = f"faulty://{tmp_path.name}"
    made(spec(tmp_path / "a.jsonl"), to, tmp_path / "made")
    yield to
    Faulty.faults.clear()


def test_a_store_that_answers_late_or_wrongly_is_read_again(store: str, tmp_path: Path) -> None:
    program = spec(tmp_path / "a.jsonl")
    straight = prepare(program, tmp_path / "cache", Silent()).stage(0)
    there = reading(store, tokenizer_at(store, tmp_path / "cache"))
    Faulty.faults[:] = [TimeoutError(), b"cut", ConnectionError(), OSError("503 slow down")]
    read = prepare(there, tmp_path / "other", Silent()).stage(0)
    for step in range(8):
        Faulty.faults[:] = [TimeoutError(), b"wrong"]
        assert same(read.train(step), straight.train(step))


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (TimeoutError("too slow"), MissingInputError, "cannot read .*: 7 tries, too slow"),
        (b"wrong", MissingInputError, "7 tries, .* not what the manifest says"),
        (PermissionError("Forbidden"), MissingInputError, "cannot read .*: Forbidden"),
    ],
)
def test_a_store_that_stays_wrong_is_named(
    store: str, tmp_path: Path, fault: Exception | bytes, kind: type[BertcError], said: str
) -> None:
    there = reading(store, tokenizer_at(store, tmp_path / "cache"))
    read = prepare(there, tmp_path / "other", Silent()).stage(0)
    Faulty.faults[:] = [fault] * 1000
    with pytest.raises(kind, match=said):
        [read.train(step) for step in range(40)]


def test_a_store_that_never_answered_is_not_tried_again(tmp_path: Path) -> None:
    fsspec.register_implementation("faulty", Faulty, clobber=True)
    FolderAt("faulty://x").write("a", b"")
    for fault, help in (("Connection", "check the address"), ("NoCredentials", "environment")):
        Faulty.faults[:] = [type(f"{fault}Error", (Exception,), {})("refused")] * 2
        with pytest.raises(MissingInputError, match=r"cannot read faulty://x/a: refused") as error:
            FolderAt("faulty://x").read("a", 1)
        assert help in str(error.value.help)
        assert len(Faulty.faults) == 1
    Faulty.faults.clear()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("nowhere", "there is no prepared text at nowhere"),
        ("gs://bucket/x", "gs:// needs another package"),
        ("quack://x/y", "no store has addresses with quack://"),
    ],
)
def test_an_address_without_text(tmp_path: Path, address: str, said: str) -> None:
    with pytest.raises(MissingInputError, match=said):
        tokenizer_at(address, tmp_path)
