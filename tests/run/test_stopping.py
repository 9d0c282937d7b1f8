"""A run that is stopped or killed, or copied meanwhile, goes on to the same bits."""

import itertools
import os
import random
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, takewhile

import fsspec
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem

from bertc.base.diagnostics import (
    GivenUpError,
    LostStoreError,
    MissingInputError,
    ResumeRefusedError,
    StoppedError,
)
from bertc.base.storage import place as places
from bertc.learn.step import feed
from bertc.machine.signals import Stop
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.records import checkpoints
from bertc.run.records.folder import RunFolder
from bertc.run.records.longer import with_settings
from bertc.run.train import loop
from bertc.run.train.loop import train
from bertc.text.prepared.opening import tokenizer_at
from bertc.text.sources import files
from tests.run.conftest import (
    FARMED,
    after_updates,
    change_losses,
    same_run,
    stop_after,
    train_farm,
)
from tests.text.test_prepared import made


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 143)]
)
def test_a_signal_is_read_when_it_suits(number, code):
    before = signal.getsignal(number)
    with Stop() as stop:
        assert not stop.requested
        stop.check()
        signal.raise_signal(number)
        assert stop.requested
        caught = pytest.raises(StoppedError, stop.check)
    assert caught.value.exit_code == code
    assert signal.getsignal(number) == before
    with Stop(way_on="again"), pytest.raises(StoppedError) as caught:
        signal.raise_signal(number)
    assert caught.value.exit_code == code


def test_a_thread_and_a_run_under_nohup_leave_signals_alone():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.requested
    finally:
        signal.signal(signal.SIGHUP, before)

    def handler_within():
        with Stop():
            return signal.getsignal(signal.SIGTERM)

    with ThreadPoolExecutor() as threads:
        assert threads.submit(handler_within).result() == signal.getsignal(signal.SIGTERM)


def test_a_second_signal_leaves_at_once(monkeypatch):
    left = []
    monkeypatch.setattr(os, "_exit", left.append)
    with Stop():
        signal.raise_signal(signal.SIGINT)
        assert left == []
        signal.raise_signal(signal.SIGINT)
    assert left == [130]


def test_the_first_signal_is_acknowledged(capfd):
    with Stop(quiet=False), Stop(shared=True, quiet=False) as shared:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert not shared.requested, "the others have not agreed"
        pytest.raises(StoppedError, shared.check_alone)
    with Stop(quiet=False):
        signal.raise_signal(signal.SIGTERM)
    with Stop():
        signal.raise_signal(signal.SIGTERM)
    assert capfd.readouterr().err == "stopping\nstopping; once more ends at once\n"


def test_a_step_of_many_parts_stops_between_two_of_them(tiny, tmp_path, monkeypatch, go):
    resolved, seen = tiny(microbatch=2), []
    go(resolved, "straight")

    def stop(_, call, *sums):
        seen.append(call)
        if call == 4 * 5 + 2:
            signal.raise_signal(signal.SIGTERM)
        return sums

    change_losses(monkeypatch, stop)
    with pytest.raises(StoppedError, match="stopped after step 5, and saved") as caught:
        go(resolved, "stopped")
    assert caught.value.exit_code == 143
    assert seen[-1] == 4 * 5 + 2
    go(resolved, "stopped", resume=True)
    same_run(tmp_path / "straight", tmp_path / "stopped")


def test_a_stop_before_a_run_has_a_folder_says_so(tiny, monkeypatch, go):
    def stopped(resolved, machine, place, resume):
        place.ranks.stop.agree(signal.SIGINT)
        place.ranks.stop.check()

    monkeypatch.setattr(loop, "settle", stopped)
    with pytest.raises(StoppedError, match="there is no run in .*/run yet") as caught:
        go(tiny())
    assert caught.value.exit_code == 130
    assert "--resume" not in caught.value.help


class Lost(MemoryFileSystem):
    """A store whose files come until it is lost, by an error or without a word."""

    protocol, files, last = "lost", itertools.count(), 4

    def get_file(self, rpath, lpath, **options):
        if "train.ids" in rpath and next(Lost.files) >= Lost.last:
            Lost.lose()
        super().get_file(rpath, lpath, **options)


@pytest.mark.parametrize("how", ["refused", "stopped"])
def test_a_run_whose_store_is_lost_is_saved_and_goes_on(how, tiny, tmp_path, monkeypatch, capsys):
    fsspec.register_implementation("lost", Lost, clobber=True)
    monkeypatch.setattr(files, "PART_BYTES", 700)
    monkeypatch.setattr(places, "FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(feed, "GLANCE_SECONDS", 0.01)
    monkeypatch.setattr(feed, "batches_at_once", lambda *_: 1)
    to, over, signals = f"lost://{tmp_path.name}", threading.Event(), iter([1])

    def refused():
        raise ConnectionResetError("gone")

    def stopped():
        if next(signals, 0):  # a second one ends the process
            os.kill(os.getpid(), signal.SIGTERM)
        assert over.wait(20)

    def go(name, lose, **options):
        monkeypatch.setattr(Lost, "lose", lose, raising=False)
        monkeypatch.setattr(Lost, "files", itertools.count())
        program = tiny(f"data=prepared('{to}', window=1) vocab='{tokenizer}' save_every=100")
        train(program, tmp_path / name, cache=tmp_path / name / "c", quiet=True, **options)

    made(tiny(), to, tmp_path / "made")
    tokenizer = tokenizer_at(to, tmp_path / "made")
    go("straight", lambda: None)
    with pytest.raises((LostStoreError, StoppedError)) as caught:
        go("run", {"refused": refused, "stopped": stopped}[how])
    over.set()
    assert 0 < RunFolder(tmp_path / "run").saved_step < 12
    assert ("tried again until" in capsys.readouterr().err) == (how == "refused")
    assert not (tmp_path / "run/failed.txt").exists()
    assert caught.value.exit_code == {"refused": 75, "stopped": 143}[how]
    go("run", lambda: None, resume=True)
    same_run(tmp_path / "straight", tmp_path / "run")
    if how == "refused":
        monkeypatch.setattr(Lost, "last", 0)
        pytest.raises(LostStoreError, go, "early", refused)
        assert "saved after" not in capsys.readouterr().err


def test_a_run_goes_on_where_its_text_is(tiny, tmp_path, monkeypatch, cache, go):
    monkeypatch.chdir(tmp_path)
    made(tiny(), "text", cache)

    def reading(path):
        return tiny(f"data=prepared('{path}') vocab='{path}/tokenizer'")

    go(reading("text"), "straight")
    run = RunFolder(tmp_path / "run")
    pytest.raises(GivenUpError, go, reading("text"), goes_on=lambda: False)
    monkeypatch.chdir("/")
    with pytest.raises(ResumeRefusedError, match="data cannot change"):
        with_settings(run.read_resolved(), [f'data=prepared("{tmp_path}/moved", window=2)'])
    (tmp_path / "text").rename(tmp_path / "moved")
    with pytest.raises(MissingInputError, match="there is no prepared text at /"):
        go(run.read_resolved(), resume=True)
    moved = with_settings(run.read_resolved(), [f'data=prepared("{tmp_path}/moved", cache=1G)'])
    go(moved, resume=True)
    same_run(run.path, tmp_path / "straight")
    assert run.read_resolved().stages[0].data[0].corpus.path == f"{tmp_path}/moved"
    assert evaluate_run(run.path, cache=cache, quiet=True).evaluation.loss


def test_older_checkpoints_that_a_kill_has_left_go_later(tiny, tmp_path, go, monkeypatch):
    resolved, folder = tiny(keep=2, save_every=3), tmp_path / "run" / "checkpoints"
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "remove_older", lambda *_: None)
        go(resolved)
    assert len([*folder.iterdir()]) == 4
    go(resolved, resume=True)
    assert sorted(path.name for path in folder.iterdir()) == ["step-00000009", "step-00000012"]


@pytest.fixture
def two_threads(monkeypatch):
    """Sums over threads are part of what must not change."""
    before = torch.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def train_on_two_threads(*arguments, **options):
    """A run in a process of its own."""
    os.environ["OMP_NUM_THREADS"] = "2"
    torch.set_num_threads(2)
    train(*arguments, **options)


def test_kills_at_any_moment_change_nothing(tiny, tmp_path, processes, two_threads, go, options):
    resolved = tiny(steps=40, save_every=5, eval_every=10)
    go(resolved, "straight")
    draw, kills, how = random.Random(11), 0, {**options, "resume": True}
    while kills < 2:
        run = (resolved, tmp_path / "killed")
        process = processes.Process(target=train_on_two_threads, args=run, kwargs=how)
        process.start()
        process.join(draw.uniform(0.05, 0.8))
        process.kill()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        kills += 1
    assert kills
    go(resolved, "killed", resume=True)
    same_run(tmp_path / "straight", tmp_path / "killed")


def test_a_terminated_command_exits_with_143_and_goes_on(tmp_path, corpus_file, processes):
    (tmp_path / "farm.bertc").write_text(f"{FARMED.format(corpus_file)}log_every=2")
    said, metrics = tmp_path / "said", tmp_path / "run" / "metrics.jsonl"
    process = processes.Process(target=train_farm, args=(said,))
    process.start()
    while process.is_alive() and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.02)
    process.terminate()
    process.join(60)
    err = said.read_text()
    assert process.exitcode == 143, err
    assert said.with_suffix(".out").read_text() == ""
    assert "stopped after step" in err
    assert "--resume" in err
    assert "Traceback" not in err
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 1


def followed(run, copy):
    """Send links to what is there now, as docs/how-to/go-on.md does; yield each file, then ''.
    ``aws s3 sync`` and ``rclone copy`` send what is new by its name, and remove nothing.
    """
    links = run.with_name("links")
    while True:
        shutil.copytree(run, links, copy_function=os.link, ignore=shutil.ignore_patterns(".*"))
        names = [path.relative_to(links).as_posix() for path in links.rglob("*") if path.is_file()]
        last = ("checkpoints/", "digests.json")
        for name in sorted(names, key=lambda name: (name.startswith(last), name)):
            source, target = links / name, copy / name
            if not target.exists() or source.stat().st_mtime_ns != target.stat().st_mtime_ns:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
                yield name
        shutil.rmtree(links)
        yield ""


@pytest.mark.parametrize("files_a_step", [1, 2, 5, 100])
def test_a_copy_made_file_by_file_goes_on(files_a_step, tiny, finished, go, tmp_path, monkeypatch):
    program, copy = tiny(keep=1, save_every=2), tmp_path / "copy"
    stop_after(monkeypatch, 3, lambda: go(program, "run"))
    assert [*takewhile(bool, followed(tmp_path / "run", copy))]
    copying, sent = followed(tmp_path / "run", copy), list[str]()
    with monkeypatch.context() as patch:
        after_updates(patch, lambda *_: sent.extend(islice(copying, files_a_step)))
        stop_after(monkeypatch, 11, lambda: go(program, "run", resume=True))
    assert any(name.startswith("checkpoints/") for name in sent)
    shutil.rmtree(tmp_path / "run")
    assert 2 <= RunFolder(copy).saved_step <= 10
    go(program, "copy", resume=True)
    same_run(finished, copy)


def test_a_copy_of_a_run_that_ends_meanwhile_ends_as_well(tiny, go, tmp_path, monkeypatch):
    program, run, copy = tiny(keep=1, save_every=2, steps=4), tmp_path / "run", tmp_path / "copy"
    go(program, "straight")
    stop_after(monkeypatch, 3, lambda: go(program, "run"))
    assert [*takewhile(bool, followed(run, copy))]
    go(program, "run", resume=True)
    for number, _ in enumerate(takewhile(bool, followed(run, copy))):
        shutil.copytree(copy, tmp_path / str(number))
        go(program, str(number), resume=True)
        same_run(tmp_path / "straight", tmp_path / str(number))
        ends = [folder / "model" / "model.safetensors" for folder in (run, tmp_path / str(number))]
        assert ends[0].read_bytes() == ends[1].read_bytes()
    assert number > 10
