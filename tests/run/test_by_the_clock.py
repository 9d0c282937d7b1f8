"""The clock of a run, which costs a step next to nothing, and runs by the clock.

Rates by the share of time used, ends, resuming, one stage.
"""

import itertools
from types import SimpleNamespace

import pytest
from torch.autograd.profiler import profile

from bertc import cost
from bertc.api import points, show
from bertc.base.diagnostics import ResumeRefusedError, SpecError, UsageError
from bertc.machine.display import Display
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.evaluation.manner import Manner
from bertc.run.records.changes import changed, settings_texts
from bertc.run.stepper import Stepper
from bertc.run.train import loop, phase
from bertc.use.card import export_with_card
from bertc.use.order import read_order
from tests.kinds import PARTS_OF_A_STEP as PARTS
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
def test_the_rate_is_that_of_the_time_used(go, timed, tmp_path, monkeypatch):
    judged = list[object]()
    monkeypatch.setattr(loop, "plateau_lines", lambda evaluation: judged.append(evaluation) or ())
    report = go(timed)
    assert len(judged) == 1
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


@pytest.mark.usefixtures("ticking")
def test_nobody_is_shown_the_steps_that_stand_for_a_time(go, timed, tmp_path):
    report, run = go(timed), tmp_path / "run"
    (run / "spec.bertc").write_text("steps = 9\n" + "# a line\n" * 20 + "# --set steps=20s\n")
    (tmp_path / "pairs.jsonl").write_text('{"sentence_good": "a hen", "sentence_bad": "hen a"}\n')
    export_with_card(run, tmp_path / "to")
    card, steps = (tmp_path / "to" / "README.md").read_text(), report.steps
    assert f"{steps} of {steps} steps" in card
    assert "# --set steps=20s" in card
    assert settings_texts(timed)["steps"] == "20s"
    longer = timed.model_copy(update={"run": timed.run.model_copy(update={"clock": 24.0})})
    others = {"9": timed.of_steps(9), "10000000000": timed.of_steps(10**10), "24 h": longer}
    changes = {text: [*map(str, changed(timed, other))] for text, other in others.items()}
    assert changes == {text: [f"steps: 20s -> {text}"] for text in others}
    pairs = evaluate_run(run, Manner(pairs=str(tmp_path / "pairs.jsonl")), quiet=True)
    assert pairs.steps == evaluate_run(run, quiet=True).steps == steps
    with pytest.raises(UsageError, match=f"0 to {steps - 1},"):
        read_order(run, 0, steps + 1, print)
    for other in others.values():
        with pytest.raises(ResumeRefusedError, match="steps: 20s -> "):
            go(other, resume=True)


@pytest.mark.parametrize("text", ["20s", "3min", "1.5 h", "7 h"])
def test_a_time_is_shown_as_it_is_read(text):
    resolved = f"{SMALL} steps={text}"
    assert f"\nsteps = {text} " in str(show(resolved))


def test_stages_are_not_counted_by_the_clock():
    with pytest.raises(SpecError, match="a run of one stage"):
        points(f"{SMALL} steps=1h stage 'a' {{ seq=16 }} stage 'b' {{ seq=16 }}")


class Impatient(Display):
    """A display that asks after every step where the run stands, and takes its time over it."""

    def __init__(self, seconds):
        self.seconds, self.standings = seconds, []

    def step(self, standing):
        self.standings.append(standing())
        self.seconds[0] += 100


@pytest.fixture
def display(monkeypatch):
    """The display of the next run; a second passes whenever the clock is read."""
    seconds = [0.0]

    def perf_counter():
        seconds[0] += 1
        return seconds[0]

    shown = Impatient(seconds)
    monkeypatch.setattr(phase.time, "perf_counter", perf_counter)
    monkeypatch.setattr(loop, "choose", lambda quiet: shown)
    return shown


TWO_STAGES = {"first": {"steps": 4, "seq": 16}, "second": {"steps": 4, "layers": 4}}


def test_the_display_s_time_is_counted_and_longer_steps_as_longer(
    tiny, tmp_path, display, monkeypatch
):
    asked, count = [], phase.executed_flops
    monkeypatch.setattr(
        phase, "executed_flops", lambda stage, n: asked.append(stage.name) or count(stage, n)
    )
    loop.train(tiny(stages=TWO_STAGES), tmp_path / "run", cache=tmp_path / "cache")
    assert asked == 2 * ["first", "second"]  # by the clock of either stage
    *_, last = lines(tmp_path / "run", "eval")
    assert last["seconds"] >= 8 * 100
    assert [found.step for found in display.standings] == [*range(1, 9)]
    first, last = display.standings[3], display.standings[-1]
    assert last.seconds_left == 1  # the evaluation at the end, as long as that before
    mean = 2 * 102 / 3  # of the steps after the first, the display of the last not yet among them
    assert first.seconds_left > 1.5 * 4 * mean


def test_a_profiler_sees_the_parts_of_a_step_by_name(tiny):
    stepper = Stepper(tiny())
    with stepper.open() as step, stepper.turn():
        step()
        with profile() as profiled:
            step()
    assert {*PARTS} - {"loader"} <= {event.key for event in profiled.key_averages()}
