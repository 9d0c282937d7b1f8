"""A run whose folder is copied file by file while it trains: what is there goes on to its bits."""

import os
import shutil
from collections.abc import Iterator
from itertools import islice, takewhile
from pathlib import Path

import pytest

from bertc.learn.step.step import TrainStep
from bertc.run.records.folder import RunFolder
from tests.run.conftest import same_run, stop_after

LAST = ("checkpoints/", "digests.json")


def followed(run: Path, copy: Path) -> Iterator[str]:
    """Send links to what is there now, as docs/how-to/go-on.md does; yield each file, then ''.

    ``aws s3 sync`` and ``rclone copy`` send what is new by its name, and remove nothing.
    """
    links = run.with_name("links")
    while True:
        shutil.copytree(run, links, copy_function=os.link, ignore=shutil.ignore_patterns(".*"))
        names = [path.relative_to(links).as_posix() for path in links.rglob("*") if path.is_file()]
        for name in sorted(names, key=lambda name: (name.startswith(LAST), name)):
            target = copy / name
            if (
                not target.exists()
                or target.stat().st_mtime_ns != (links / name).stat().st_mtime_ns
            ):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(links / name, target)
                yield name
        shutil.rmtree(links)
        yield ""


def whole_pass(run: Path, copy: Path) -> None:
    assert [*takewhile(bool, followed(run, copy))]


@pytest.mark.parametrize("files_a_step", [1, 2, 5, 100])
def test_a_copy_made_file_by_file_goes_on_as_if_never_stopped(
    files_a_step, tiny, go, tmp_path, monkeypatch
):
    program, copy = tiny(keep=1, save_every=2), tmp_path / "copy"
    go(program, "straight")
    stop_after(monkeypatch, 3, lambda: go(program, "run"))
    whole_pass(tmp_path / "run", copy)
    copying, sent = followed(tmp_path / "run", copy), list[str]()
    real = TrainStep.__call__

    def sending(*arguments):
        sent.extend(islice(copying, files_a_step))
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "__call__", sending)
        stop_after(monkeypatch, 11, lambda: go(program, "run", resume=True))
    assert any(name.startswith("checkpoints/") for name in sent)
    shutil.rmtree(tmp_path / "run")
    assert 2 <= RunFolder(copy).saved_step <= 10
    go(program, "copy", resume=True)
    same_run(tmp_path / "straight", copy)


def test_a_copy_of_a_run_that_ends_meanwhile_ends_as_well(tiny, go, tmp_path, monkeypatch):
    program, run, copy = tiny(keep=1, save_every=2, steps=4), tmp_path / "run", tmp_path / "copy"
    go(program, "straight")
    stop_after(monkeypatch, 3, lambda: go(program, "run"))
    whole_pass(run, copy)
    go(program, "run", resume=True)
    for number, _ in enumerate(takewhile(bool, followed(run, copy))):
        shutil.copytree(copy, tmp_path / str(number))
        go(program, str(number), resume=True)
        same_run(tmp_path / "straight", tmp_path / str(number))
        ends = [folder / "model" / "model.safetensors" for folder in (run, tmp_path / str(number))]
        assert ends[0].read_bytes() == ends[1].read_bytes()
    assert number > 10
