"""What is shown while a run goes on: evaluations too, and the time left with those to come."""

import io
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from bertc.machine import display as displays
from bertc.machine.display import Live, Plain, Standing
from bertc.run.evaluation.held_out import counted
from bertc.run.train.clock import Clock, evaluations_due
from bertc.run.train.loop import train

STANDING = Standing(1, 9, "main", 2.0, 100.0, 61.0, 2**30)


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""

    class Now:
        seconds = 1000.0

        def monotonic(self):
            return self.seconds

    now = Now()
    monkeypatch.setattr(displays, "time", now)
    return now


def plain():
    console = Console(file=io.StringIO(), width=200)
    return Plain(console), lambda: console.file.getvalue().splitlines()


def test_an_evaluation_between_steps_is_told_once_it_takes_its_time(clock):
    display, lines = plain()
    display.step(lambda: STANDING)
    before = lines()
    for seconds, told in ((4.0, 0), (2.0, 1), (29.0, 0), (2.0, 1)):
        if seconds == 4.0:
            display.begin("answering 100 examples of squad dev", 100, "rows")
        clock.seconds += seconds
        display.advance(10)
        assert len(lines()) - len(before) == told
        before = lines()
    assert before[1] == "answering 100 examples of squad dev: 20 rows of 100, 24 s left, 3/s"
    display.end()
    display.step(lambda: STANDING)
    assert lines()[-1].startswith("step 1/9"), "half a minute after the last one"
    display.begin("evaluating", 9, "rows")
    display.end()
    display.step(lambda: STANDING)
    assert len(lines()) == len(before) + 1, "a short evaluation adds no line"


def test_a_preparation_is_told_at_once():
    display, lines = plain()
    display.begin("answering 100 examples of squad dev", 100, "rows")
    assert lines() == ["answering 100 examples of squad dev ..."]


def test_the_line_of_a_run_comes_back_after_an_evaluation():
    console = Console(file=io.StringIO(), width=120, force_terminal=True)
    display = Live(console)
    for _ in range(2):
        display.step(lambda: STANDING)
        display.begin("evaluating", 9, "rows")
        display.advance(3)
        display.end()
    display.step(lambda: replace(STANDING, step=2))
    display.close()
    assert "1:01 left" in console.file.getvalue()


def test_rows_of_an_evaluation_are_counted(clock):
    display, lines = plain()
    batches = [SimpleNamespace(lengths=[5, 5])] * 2
    data = SimpleNamespace(heldout=lambda *_: batches, heldout_rows=lambda *_: 4)
    for _ in counted(data, 2, 30_000, display):
        clock.seconds += 40.0
    assert lines()[0] == "evaluating ..."
    assert lines()[1] == "evaluating: 2 rows of 4, 40 s left, 0/s", "as many as there are"


def test_evaluations_to_come_are_counted(tiny):
    one = tiny(steps=12, eval_every=5)
    assert [evaluations_due(one, step) for step in (1, 5, 6, 10, 11, 12)] == [3, 3, 2, 2, 1, 1]
    stages = {"a": {"steps": 6}, "b": {"steps": 6}}
    two = tiny(stages=stages, eval_every=4)
    assert [evaluations_due(two, step) for step in (1, 4, 5, 6, 7, 9)] == [4, 4, 3, 3, 2, 1]


def test_the_time_left_has_the_evaluations_to_come(tiny, tmp_path, monkeypatch):
    left, resolved = [], tiny(steps=3, eval_every=3, log_every=3, save_every=3)

    class Told(Plain):
        def step(self, standing):
            left.append(standing().seconds_left)

    class Slow(Clock):
        def __init__(self, *told):
            super().__init__(*told)
            self.evaluation_seconds = 1000.0

    loop = sys.modules[train.__module__]
    monkeypatch.setattr(loop, "choose", lambda quiet: Told(Console(quiet=True)))
    monkeypatch.setattr(loop, "Clock", Slow)
    train(resolved, tmp_path / "run", cache=tmp_path / "cache")
    cold, *warm = left
    assert cold is None, "nothing follows from a first step"
    assert len(warm) == 2
    assert all(1000 <= seconds < 1100 for seconds in warm)


def test_times_are_read_at_a_glance():
    assert [displays.clock(s) for s in (41, 303, 7503)] == ["41 s", "5:03", "2:05:03"]
    assert displays.clock(656 * 86_400) == "656 days"
