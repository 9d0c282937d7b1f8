"""The clock of a run: it sees all of a step's time, and costs a step next to nothing."""

import json
import sys

import pytest

from bertc.base.diagnostics import CannotWriteError
from bertc.cli import main
from bertc.machine.display import Display
from bertc.run.train import clock, loop
from bertc.run.train.loop import train
from tests.kinds import PARTS_OF_A_STEP as PARTS
from tests.run.conftest import lines, same_run


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
    monkeypatch.setattr(clock.time, "perf_counter", perf_counter)
    monkeypatch.setattr(loop, "choose", lambda quiet: shown)
    return shown


TWO_STAGES = {"first": {"steps": 4, "seq": 16}, "second": {"steps": 4, "layers": 4}}


def test_the_display_s_time_is_counted_and_longer_steps_as_longer(
    tiny, tmp_path, display, monkeypatch
):
    asked, count = [], clock.executed_flops
    monkeypatch.setattr(
        clock, "executed_flops", lambda stage, n: asked.append(stage.name) or count(stage, n)
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


def test_a_run_with_a_profile_is_the_same_run(tiny, tmp_path, go):
    go(tiny(), "plain")
    profile = tmp_path / "profile"
    go(tiny(), "seen", profile=profile)
    same_run(tmp_path / "plain", tmp_path / "seen")
    events = json.loads((profile / "main" / "trace.json").read_text())["traceEvents"]
    assert {*PARTS} - {"loader"} <= {event["name"] for event in events}
    table = (profile / "main" / "ops.txt").read_text()
    assert table.startswith("3 steps")
    assert "aten::" in table


def test_a_profile_that_cannot_be_written(tiny, tmp_path, cache):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(CannotWriteError, match="taken"):
        train(
            tiny(), tmp_path / "run", cache=cache, quiet=True,
            profile=tmp_path / "taken",
        )  # fmt: skip


def test_a_file_is_refused_before_anything_is_read(tmp_path, monkeypatch, capsys):
    (tmp_path / "taken").write_text("a file")
    run = str(tmp_path / "run")
    profile = str(tmp_path / "taken")
    command = ["bertc", "train", "bert-tiny", "--out", run, "--profile", profile]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "--profile" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
