"""The clock of a run: it sees all of a step's time, and costs a step next to nothing."""

import pytest
from torch.autograd.profiler import profile

from bertc.machine.display import Display
from bertc.run.stepper import Stepper
from bertc.run.train import loop, pace
from tests.kinds import PARTS_OF_A_STEP as PARTS
from tests.run.conftest import lines


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
    monkeypatch.setattr(pace.time, "perf_counter", perf_counter)
    monkeypatch.setattr(loop, "choose", lambda quiet: shown)
    return shown


TWO_STAGES = {"first": {"steps": 4, "seq": 16}, "second": {"steps": 4, "layers": 4}}


def test_the_display_s_time_is_counted_and_longer_steps_as_longer(
    tiny, tmp_path, display, monkeypatch
):
    asked, count = [], pace.executed_flops
    monkeypatch.setattr(
        pace, "executed_flops", lambda stage, n: asked.append(stage.name) or count(stage, n)
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
