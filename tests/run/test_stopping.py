import itertools
import os
import random
import signal
import threading
import time

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
from bertc.base.storage.place import FolderAt
from bertc.ir.data import Prepared, Share
from bertc.ir.vocabulary import TokenizerFile
from bertc.learn.step import feed
from bertc.machine.signals import Stop
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.records import checkpoints
from bertc.run.records.folder import RunFolder
from bertc.run.records.longer import with_settings
from bertc.run.train import loop, phase
from bertc.run.train.loop import train
from bertc.text.cache.store import Silent
from bertc.text.prepared.finishing import finish_preparing
from bertc.text.prepared.making import begin_preparing, make_parts
from bertc.text.prepared.opening import tokenizer_at
from bertc.text.sources import files
from tests.run.conftest import same_run, train_farm


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
        with pytest.raises(StoppedError) as caught:
            stop.check()
    assert caught.value.exit_code == code
    assert signal.getsignal(number) == before
    with Stop(way_on="again"), pytest.raises(StoppedError) as caught:
        signal.raise_signal(number)
    assert caught.value.exit_code == code


def test_a_run_under_nohup_does_not_hear_of_a_closed_terminal():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Stop() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.requested
    finally:
        signal.signal(signal.SIGHUP, before)


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
        with pytest.raises(StoppedError):
            shared.check_alone()
    with Stop(quiet=False):
        signal.raise_signal(signal.SIGTERM)
    with Stop():
        signal.raise_signal(signal.SIGTERM)
    assert capfd.readouterr().err == "stopping\nstopping; once more ends at once\n"


def test_a_step_of_many_parts_stops_between_two_of_them(tiny, tmp_path, monkeypatch):
    resolved, cache = tiny(microbatch=2), tmp_path / "cache"
    loop.train(resolved, tmp_path / "straight", cache=cache, quiet=True)
    made, calls = phase.make_objective, []

    def counted(*arguments):
        objective = made(*arguments)

        def call(*batch):
            calls.append(1)
            if len(calls) == 4 * 5 + 2:
                signal.raise_signal(signal.SIGTERM)
            return objective(*batch)

        return call

    monkeypatch.setattr(phase, "make_objective", counted)
    with pytest.raises(StoppedError, match="stopped after step 5, and saved") as caught:
        loop.train(resolved, tmp_path / "stopped", cache=cache, quiet=True)
    assert caught.value.exit_code == 143
    assert len(calls) == 4 * 5 + 2
    loop.train(resolved, tmp_path / "stopped", cache=cache, quiet=True, resume=True)
    same_run(tmp_path / "straight", tmp_path / "stopped")


def test_a_thread_leaves_the_signals_alone():
    before, found = signal.getsignal(signal.SIGTERM), []

    def enter() -> None:
        with Stop():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert found == [before]


def test_a_stop_before_a_run_has_a_folder_says_so(tiny, tmp_path, monkeypatch):
    def stopped(resolved, machine, place, resume):
        ranks = place.ranks
        ranks.stop.agree(signal.SIGINT)
        ranks.stop.check()

    monkeypatch.setattr(loop, "settle", stopped)
    with pytest.raises(StoppedError, match="there is no run in .*/run yet") as caught:
        loop.train(tiny(), tmp_path / "run", cache=tmp_path / "cache", quiet=True)
    assert caught.value.exit_code == 130
    assert "--resume" not in caught.value.help


class Lost(MemoryFileSystem):
    """A store whose files come until it is lost, by an error or without a word."""

    protocol, files, last = "lost", itertools.count(), 4

    def get_file(self, rpath, lpath, **options):
        if "train.ids" in rpath and next(Lost.files) >= Lost.last:
            Lost.lose()
        super().get_file(rpath, lpath, **options)


def prepared(program, to, cache):
    place = FolderAt(to)
    work = begin_preparing(program, place, cache, Silent())
    make_parts(work, work.plan.parts, Silent())
    finish_preparing(place, Silent())


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
        text = (Share(corpus=Prepared(path=to, window=1)),)
        program = tiny(data=text, vocab=TokenizerFile(path=str(tokenizer)), save_every=100)
        loop.train(program, tmp_path / name, cache=tmp_path / name / "c", quiet=True, **options)

    prepared(tiny(holdout=0.2), to, tmp_path / "made")
    tokenizer = tokenizer_at(to, tmp_path / "made")
    go("straight", lambda: None)
    with pytest.raises((LostStoreError, StoppedError)) as caught:
        go("run", {"refused": refused, "stopped": stopped}[how])
    over.set()
    assert 0 < RunFolder(tmp_path / "run").saved_step < 12
    said = capsys.readouterr().err
    assert ("tried again until" in said) == (how == "refused")
    assert not (tmp_path / "run/failed.txt").exists()
    assert caught.value.exit_code == {"refused": 75, "stopped": 143}[how]
    go("run", lambda: None, resume=True)
    same_run(tmp_path / "straight", tmp_path / "run")
    if how == "refused":
        monkeypatch.setattr(Lost, "last", 0)
        with pytest.raises(LostStoreError):
            go("early", refused)
        assert "saved after" not in capsys.readouterr().err


def test_a_run_goes_on_where_its_text_is(tiny, tmp_path, monkeypatch):
    text, cache = tiny(holdout=0.2), tmp_path / "cache"
    monkeypatch.chdir(tmp_path)
    prepared(text, "text", cache)

    def reading(path):
        share = Share(corpus=Prepared(path=path))
        return tiny(data=(share,), vocab=TokenizerFile(path=f"{path}/tokenizer"))

    loop.train(reading("text"), tmp_path / "straight", cache=cache, quiet=True)
    run, once = RunFolder(tmp_path / "run"), {"quiet": True, "goes_on": lambda: False}
    with pytest.raises(GivenUpError):
        loop.train(reading("text"), run.path, cache=cache, **once)
    monkeypatch.chdir("/")
    with pytest.raises(ResumeRefusedError, match="data cannot change"):
        with_settings(run.read_resolved(), [f'data=prepared("{tmp_path}/moved", window=2)'])
    (tmp_path / "text").rename(tmp_path / "moved")
    with pytest.raises(MissingInputError, match="there is no prepared text at /"):
        loop.train(run.read_resolved(), run.path, resume=True, cache=cache, quiet=True)
    moved = with_settings(run.read_resolved(), [f'data=prepared("{tmp_path}/moved", cache=1G)'])
    loop.train(moved, run.path, resume=True, cache=cache, quiet=True)
    same_run(run.path, tmp_path / "straight")
    assert run.read_resolved().stages[0].data[0].corpus.path == f"{tmp_path}/moved"
    assert evaluate_run(run.path, cache=cache, quiet=True).evaluation.loss


def test_older_checkpoints_that_a_kill_has_left_go_when_the_run_goes_on(
    tiny, tmp_path, options, monkeypatch
):
    resolved, folder = tiny(keep=2, save_every=3), tmp_path / "run" / "checkpoints"
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "remove_older", lambda *_: None)
        train(resolved, tmp_path / "run", **options)
    assert len([*folder.iterdir()]) == 4
    train(resolved, tmp_path / "run", resume=True, **options)
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


def test_kills_at_random_moments_change_nothing(tiny, tmp_path, processes, two_threads):
    resolved = tiny(steps=40, save_every=5, eval_every=10)
    cache = tmp_path / "cache"
    train(resolved, tmp_path / "straight", cache=cache, quiet=True)
    draw, kills = random.Random(11), 0
    options = {"cache": cache, "quiet": True, "resume": True}
    while kills < 2:
        process = processes.Process(
            target=train_on_two_threads, args=(resolved, tmp_path / "killed"), kwargs=options
        )
        process.start()
        process.join(draw.uniform(0.05, 0.8))
        process.kill()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        kills += 1
    assert kills
    train(resolved, tmp_path / "killed", **options)
    same_run(tmp_path / "straight", tmp_path / "killed")


def test_a_terminated_command_exits_with_143_and_goes_on(tmp_path, corpus_file, processes):
    (tmp_path / "farm.bertc").write_text(
        "layers=2 hidden=32 heads=2 seq=24 batch=8 steps=4000 vocab=wordpiece(120)\n"
        f'data=files("{corpus_file}", sentences=lines) holdout=20% device=cpu compile=off\n'
    )
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
