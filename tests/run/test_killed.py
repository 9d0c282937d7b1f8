"""Real processes: killed at random moments, and asked to stop."""

import os
import random
import signal
import sys
import time

import pytest
import torch

from bertc import cli
from bertc.run.train.loop import train


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


def test_kills_at_random_moments_change_nothing(tiny, tmp_path, processes, two_threads, same_run):
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


def command(said):
    """``bertc train`` in a process that has loaded torch; ``said`` gets what it says."""
    for stream, file in ((1, said.with_suffix(".out")), (2, said)):
        with file.open("w") as opened:
            os.dup2(opened.fileno(), stream)
    os.environ |= {"BERTC_CACHE": str(said.parent / "cache"), "OMP_NUM_THREADS": "1"}
    os.chdir(said.parent)
    sys.argv = ["bertc", "train", "farm.bertc", "--out", "run"]
    cli.main()


def test_a_terminated_command_exits_with_143_and_goes_on(tmp_path, corpus_file, processes):
    (tmp_path / "farm.bertc").write_text(
        "layers=2 hidden=32 heads=2 seq=24 batch=8 steps=4000 vocab=wordpiece(120)\n"
        f'data=files("{corpus_file}", sentences=lines) holdout=20% device=cpu compile=off\n'
    )
    said, metrics = tmp_path / "said", tmp_path / "run" / "metrics.jsonl"
    process = processes.Process(target=command, args=(said,))
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
