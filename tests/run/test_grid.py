"""``bertc train`` of a grid: a run a point, failures reported, stopped and resumed."""

import math

import pytest

from bertc.run.models.loading import read_model
from bertc.run.train import phase
from bertc.run.train.grid import folder_name
from tests.run.conftest import same_run, stopping

SPEC = """
layers=2 hidden=32 heads=2 ffn=64 vocab=wordpiece(60) data=files("{data}") holdout=10%
task=classify("{rows}", "{rows}") seq=16 batch=8 steps=4 eval_every=2
device=cpu compile=off precision=fp32
"""


@pytest.fixture
def grid(tmp_path, monkeypatch, corpus_file, cache):
    """Write a grid into a file: the common settings and some more."""
    monkeypatch.setenv("BERTC_CACHE", str(cache))
    rows = tmp_path / "rows.tsv"
    rows.write_text("text\tlabel\n" + "hens cackle\ta\nold red barn\tb\n" * 8)

    def write(more):
        text = SPEC.format(data=corpus_file, rows=rows) + more
        (tmp_path / "farm.bertc").write_text(text)
        return str(tmp_path / "farm.bertc")

    monkeypatch.chdir(tmp_path)
    return write


def test_every_point_has_a_run_of_its_own(grid, call, tmp_path):
    spec = grid("seed={1, 2}")
    code, out, err = call("train", spec)
    assert code == 0
    assert "point 2 of 2, seed=2:" in err
    assert "classify dev" in out
    assert "accuracy" in out
    runs = [tmp_path / "runs" / "farm" / name for name in ("seed=1", "seed=2")]
    assert [read_model(run)[0].run.seed for run in runs] == [1, 2]
    assert (runs[1] / "spec.bertc").read_text().endswith("seed={1, 2}\n# the point seed=2\n")
    code, out, err = call("train", spec)
    assert (code, out) == (2, "")
    assert "holds a run already" in err
    code, again, err = call("train", spec, "--resume")
    assert code == 0
    assert "point 1 of 2, seed=1: finished" in err
    assert "point 2 of 2, seed=2: finished" in err
    code, out, err = call("train", spec, "--resume", "--set", "steps=5")
    assert code == 76
    assert "steps: 4 -> 5" in err
    assert "--set seed=1 --set 'init=" in err, "one point of the grid goes on"
    assert call("runs", "--results", "runs") == (0, again, "")


def test_a_point_that_fails_is_reported_and_the_others_go_on(grid, call, tmp_path, monkeypatch):
    spec = grid("optimizer=adam(lr={1e-2, 1e-3})")
    make = phase.make_objective

    def poisoned(model, stage, compiled, frozen):
        objective = make(model, stage, compiled, frozen)

        def call(batch, factors):
            loss, statistics, memory = objective(batch, factors)
            return loss * math.nan, statistics * math.nan, memory

        return call if stage.optimizer.lr == 1e-2 else objective

    monkeypatch.setattr(phase, "make_objective", poisoned)
    code, out, err = call("train", spec, "--out", "out")
    assert code == 65
    assert "is not a finite number" in err
    assert "point 2 of 2, optimizer=adam(lr=0.001):" in err
    assert "unfinished: 0/4" in out
    code, out, err = call("train", spec, "--out", "out", "--resume")
    assert code == 65
    assert "is not a finite number" in err
    assert "point 2 of 2, optimizer=adam(lr=0.001): finished" in err


def test_stopped_it_goes_on_with_the_points_that_are_left(grid, call, tmp_path, monkeypatch):
    spec = grid("seed={1, 2, 3}")
    assert call("train", spec, "--out", "straight")[0] == 0
    with stopping(monkeypatch, 2, "seed=2"):
        code, out, err = call("train", spec, "--out", "stopped")
    assert (code, out) == (143, "")
    assert "stopped after step 2, and saved" in err
    assert not (tmp_path / "stopped" / "seed=3").exists()
    code, out, err = call("runs", "--results", "stopped")
    assert "unfinished: 2/4" in out
    code, out, err = call("train", spec, "--out", "stopped", "--resume")
    assert code == 0
    assert "seed=1: finished" in err
    assert "resuming at step 2 of 4" in err
    for name in ("seed=1", "seed=2", "seed=3"):
        same_run(tmp_path / "straight" / name, tmp_path / "stopped" / name)


def test_several_processes_are_refused(grid, call, monkeypatch):
    code, _, err = call("train", grid("seed={1, 2}"), "--nproc", "2")
    assert code == 2
    assert "a grid of 2 points is trained in one process" in err
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "0"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    code, _, err = call("train", grid("seed={1, 2}"))
    assert code == 2
    assert "trained in one process" in err


def test_names_of_folders():
    assert folder_name("seed=1") == "seed=1"
    assert folder_name("E=64 long.seq=512") == "E=64,long.seq=512"
    assert folder_name("optimizer=adam(lr=1e-5) seed=2") == "optimizer=adam-lr=1e-5,seed=2"
    one, other = (folder_name(f'data=files("/a{c}b.txt")') for c in "/ ")
    assert one != other
    assert one.startswith("data=files-a-b.txt-")
    assert folder_name("optimizer=adam(lr=1e-5, warmup=3)") == "optimizer=adam-lr=1e-5,warmup=3"
    assert "/" not in one
    assert len(folder_name("heads=" + "1" * 500)) < 120
