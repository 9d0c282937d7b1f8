"""Runs by the clock: rates by the share of time used, ends, resuming, one stage."""

import itertools
from types import SimpleNamespace

import pytest

from bertc import cost
from bertc.api import points
from bertc.base.diagnostics import SpecError
from bertc.run.train import loop
from tests.run.conftest import lines

SMALL = "layers=1 hidden=32 heads=2 batch=4 seq=16 vocab=wordpiece(200) data=files('farm.txt')"


@pytest.fixture
def ticking(monkeypatch):
    """A clock that each reading moves on by as much, so that a step takes the same every time."""
    ticks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: next(ticks) * 0.5)
    monkeypatch.setattr(loop, "time", clock)


@pytest.fixture
def timed(tiny):
    """A tiny program of 20 seconds, in a cosine after a warm-up of a fifth."""
    program = tiny(log_every=1, eval_every=5, save_every=3)
    stage = program.of_steps(10**9).stages[0]
    optimizer = stage.optimizer.model_copy(update={"warmup": 0.2})
    stage = stage.model_copy(update={"optimizer": optimizer, "warmup_steps": 2 * 10**8})
    run = program.run.model_copy(update={"clock": 20 / 3600})
    return program.model_copy(update={"stages": (stage,), "run": run})


@pytest.mark.usefixtures("ticking")
def test_the_rate_is_that_of_the_time_used(go, timed, tmp_path):
    report = go(timed)
    trained = lines(tmp_path / "run", "train")
    assert trained[0]["clock"] == 0
    for line in trained:
        rising, falling = line["clock"] / 0.2, (1 - line["clock"]) / 0.8
        assert line["lr"] == pytest.approx(1e-3 * min(rising, falling))
    end, a_step = lines(tmp_path / "run", "eval")[-1]["seconds"], 2 * 0.5
    assert 20 <= end < 20 + a_step
    assert [line["seconds"] / 20 for line in trained[:-1]] == pytest.approx(
        [line["clock"] for line in trained[1:]], abs=0.05
    )
    assert (
        report.steps == report.step == len(trained) == lines(tmp_path / "run", "eval")[-1]["step"]
    )


@pytest.mark.usefixtures("ticking")
def test_a_resumed_run_has_the_time_that_is_left(resumes, timed):
    resumes(timed, 4, 7)


@pytest.mark.usefixtures("in_the_farm")
def test_an_estimate_has_the_steps_there_is_time_for():
    (program,) = points(f"{SMALL} steps=2min")
    estimated = cost.estimate(program, "cpu")
    assert estimated.time.seconds_total == pytest.approx(120, rel=0.01)
    (again,) = points(f"{SMALL} steps={estimated.stages[0].steps}")
    assert cost.estimate(again, "cpu").flops.train_total == estimated.flops.train_total


def test_stages_are_not_counted_by_the_clock():
    with pytest.raises(SpecError, match="a run of one stage"):
        points(f"{SMALL} steps=1h stage 'a' {{ seq=16 }} stage 'b' {{ seq=16 }}")
