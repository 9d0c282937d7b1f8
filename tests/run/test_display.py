"""What is shown while a run goes on, here and by trackers, none of which harms the run.
Evaluations too, and the time left with those to come.
"""

import io
import json
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from rich.console import Console

from bertc.api import resolve
from bertc.base.diagnostics import MissingInputError, UsageError
from bertc.cost import estimate
from bertc.lab.results.curves import curves
from bertc.lab.trackers import sink
from bertc.lab.trackers.sink import feeding
from bertc.lab.trackers.tracked import TrackedRun
from bertc.lab.watch.terminal import look, show_once, sparkline, watch
from bertc.learn.step.step import AT_THE_BEGINNING, CALMER
from bertc.machine import display as displays
from bertc.machine.display import Live, Plain, Standing
from bertc.run.evaluation.held_out import fetch
from bertc.run.records import metrics
from bertc.run.records.folder import identity
from bertc.run.records.longer import with_settings
from bertc.run.train import opening
from bertc.run.train.loop import train
from bertc.run.train.phase import Pace, evaluations_due

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


def test_a_slow_evaluation_between_steps_is_reported(clock):
    display, lines = plain()
    display.step(lambda: STANDING)
    before = lines()
    display.begin("answering 100 examples of squad dev", 100, "rows")
    for seconds, message in ((4.0, 0), (2.0, 1), (29.0, 0), (2.0, 1)):
        clock.seconds += seconds
        display.advance(10)
        assert len(lines()) - len(before) == message
        before = lines()
    assert before[1] == "answering 100 examples of squad dev: 20 rows of 100, 24 s left, 3/s"
    display.end()
    display.step(lambda: STANDING)
    assert lines()[-1].startswith("step 1/9"), "half a minute after the last one"
    display.begin("evaluating", 9, "rows")
    display.end()
    display.step(lambda: STANDING)
    assert len(lines()) == len(before) + 1, "a short evaluation adds no line"


def test_a_preparation_is_reported_at_once_and_rows_are_counted(clock):
    display, lines = plain()
    display.begin("answering 100 examples of squad dev", 100, "rows")
    assert lines() == ["answering 100 examples of squad dev ..."]
    display, lines = plain()
    batches = [SimpleNamespace(lengths=[5, 5])] * 2
    data = SimpleNamespace(heldout=lambda *_: batches, heldout_rows=lambda *_: 4)
    for _ in fetch(data, 2, 30_000, display):
        clock.seconds += 40.0
    first, second, *_ = lines()
    assert (first, second) == ("evaluating ...", "evaluating: 2 rows of 4, 40 s left, 0/s")


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


def test_evaluations_to_come_are_counted_and_in_the_time_left(tiny, tmp_path, monkeypatch, cache):
    one = tiny(steps=12, eval_every=5)
    assert [evaluations_due(one, step) for step in (1, 5, 6, 10, 11, 12)] == [3, 3, 2, 2, 1, 1]
    two = tiny(stages={"a": {"steps": 6}, "b": {"steps": 6}}, eval_every=4)
    assert [evaluations_due(two, step) for step in (1, 4, 5, 6, 7, 9)] == [4, 4, 3, 3, 2, 1]
    left, resolved = [], tiny(steps=3, eval_every=3, log_every=3, save_every=3)

    class Told(Plain):
        def step(self, standing):
            left.append(standing().seconds_left)

    class Slow(Pace):
        def __init__(self, *message):
            super().__init__(*message)
            self.evaluation_seconds = 1000.0

    monkeypatch.setattr("bertc.run.train.loop.choose", lambda quiet: Told(Console(quiet=True)))
    monkeypatch.setattr("bertc.run.train.loop.Pace", Slow)
    train(resolved, tmp_path / "run", cache=cache)
    cold, *warm = left
    assert cold is None, "nothing follows from a first step"
    assert len(warm) == 2
    assert all(1000 <= seconds < 1100 for seconds in warm)


def test_times_and_lines_of_blocks_are_read_at_a_glance():
    assert [displays.clock_text(s) for s in (41, 303, 7503)] == ["41 s", "5:03", "2:05:03"]
    assert displays.clock_text(656 * 86_400) == "656 days"
    # At first there is no checkpoint, and no rate that was too high.
    first, later = AT_THE_BEGINNING, CALMER
    assert all(each in later for each in ("checkpoints", "learning rate"))
    assert all(each in first for each in ("precision=fp32", "compile=off"))
    assert "checkpoint" not in first
    assert sparkline([0.0, 1.0, 2.0, 3.0], 4) == "▁▃▆█"
    assert sparkline([1.0, 0.0, 1.0], 2) == "▁█"
    assert sparkline([2.0, 2.0], 10) == "▁▁"


def test_a_run_that_takes_long_says_so(tiny, tmp_path, monkeypatch, capsys, cache):
    resolved = tiny(steps=2)
    train(resolved, tmp_path / "short", cache=cache)
    assert "estimated to take" not in capsys.readouterr().err
    monkeypatch.setattr(opening, "SHORTEST_FORECAST_SECONDS", 0)
    train(resolved, tmp_path / "long", cache=cache)
    expected = estimate(resolved, "cpu").time.total_text
    assert f"2 steps are estimated to take {expected} on cpu" in capsys.readouterr().err


def line(step, kind="train", **more):
    loss = 5.0 - step / 10
    return {"kind": kind, "step": step, "stage": "main", "tokens": step * 64,
            "seconds": step / 2, "loss": loss, "losses": {"mlm": loss}, **more}  # fmt: skip


@pytest.fixture
def run(tiny, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "resolved.json").write_text(tiny().model_dump_json())
    return folder


def append(run, *lines):
    with open(run / "metrics.jsonl", "a") as file:
        file.writelines(json.dumps(each) + "\n" for each in lines)


def test_a_run_is_read_as_it_is_now_to_its_last_whole_line(run):
    assert look(run).points == []
    append(run, line(2), line(4))
    with open(run / "metrics.jsonl", "a") as file:
        file.write('{"kind": "train", "st')
    assert [point.step for point in look(run).points] == [2, 4]
    # It goes on from step 2, and is beyond step 4 by the time of the next look.
    (run / "metrics.jsonl").write_text("")
    append(run, line(2), line(3), line(4), line(6))
    assert [point.step for point in look(run).points] == [2, 3, 4, 6]


def test_the_view_has_rate_time_left_and_the_last_evaluation(run):
    append(run, line(2, lr=1e-3), line(4, lr=5e-4), line(4, "eval", accuracy={"\x1b[2Jmlm": 0.5}))
    view = look(run)
    # Half a second a step, eight of which are left.
    assert view.seconds_left == pytest.approx(4.0)
    assert "step 4 of 12" in view.line()
    assert "rate 0.0005, tokens/s 128" in view.line()
    assert "evaluation at step 4: loss 4.6" in view.evaluation_line()
    assert "\x1b" not in view.evaluation_line()


def test_a_picture_fits_its_width_and_lines_go_where_there_is_no_terminal(run):
    append(run, line(2, lr=1e-3), line(4, lr=5e-4), line(4, "eval"), line(6, lr=1e-4))
    for width in (40, 120):
        shown = io.StringIO()
        show_once(run, Console(file=shown, force_terminal=True, width=width, color_system=None))
        lines = shown.getvalue().splitlines()
        assert max(map(len, lines)) <= width
        assert any("learning rate" in each for each in lines)
        assert "█▄▁" in shown.getvalue()
    shown = io.StringIO()
    watch(run, Console(file=shown, width=80))  # no process trains it: it has ended
    first, second = shown.getvalue().splitlines()
    assert first.startswith(f"{run}: stopped, step 6 of 12")
    assert second.startswith("evaluation at step 4")


LINES = [line(2), line(4), line(4, "eval"), line(6)]


class Kept:
    """A tracker in memory, which may fail at its third figure."""

    def __init__(self, fails=False):
        self.points, self.fails, self.closed = [], fails, 0

    def record(self, point, time):
        if self.fails and len(self.points) == 2:
            raise OSError("its disk\x1b[31m is full\nand more")
        self.points.append((point.step, point.kind, point.values.get("train/tokens_per_second")))

    def close(self):
        self.closed += 1


def logged(program, *trackers):
    return program.model_copy(update={"run": program.run.model_copy(update={"log": trackers})})


def test_a_tracker_that_raises_is_dropped_with_one_warning(tiny, tmp_path, monkeypatch):
    runs, notes = [], []
    trackers = {"wandb": Kept(), "mlflow": Kept(fails=True)}
    monkeypatch.setattr(sink, "sink_of", lambda name, run: (runs.append(run), trackers[name])[1])
    for step in (0, 4):
        with feeding(tmp_path, logged(tiny(), "mlflow", "wandb"), step, notes.append) as send:
            for line in LINES:
                send(line)
    assert trackers["wandb"].points[:4] == [
        (2, "train", 128.0), (4, "train", 128.0), (4, "eval", None), (6, "train", 128.0)
    ]  # fmt: skip
    assert (trackers["wandb"].closed, trackers["mlflow"].closed) == (2, 0)
    assert len(trackers["wandb"].points) == 8
    assert len(trackers["mlflow"].points) == 2
    reason = "its disk\\x1b[31m is full"
    warning = f"warning: mlflow failed and gets no more figures of this run: {reason}"
    assert notes == [warning, warning]
    # A run that goes on is the same run to its tracker.
    first, second, *_ = [run for run in runs if run.id == runs[1].id]
    assert (first.step, second.step, first.name) == (0, 4, tmp_path.name)
    assert first.settings["layers"]


@pytest.mark.skipif(find_spec("tensorboard") is None, reason="needs tensorboard")
def test_tensorboard_changes_nothing_of_a_run_and_has_its_metrics(tiny, tmp_path, go):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    weights = []
    for name, program in (("plain", tiny()), ("logged", logged(tiny(), "tensorboard"))):
        go(program, name, tracking=feeding)
        weights.append((tmp_path / name / "model" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    read = EventAccumulator(str(tmp_path / "logged" / "tensorboard"))
    read.Reload()
    there = curves(tmp_path / "logged")
    assert {*read.Tags()["scalars"]} == {*there.names}
    for name in there.names:
        steps, values = there.of(name, "step")
        scalars = read.Scalars(name)
        assert [scalar.step for scalar in scalars] == steps
        assert [scalar.value for scalar in scalars] == pytest.approx(values, rel=1e-6)


@pytest.mark.skipif(find_spec("wandb") is None, reason="needs wandb")
def test_wandb_is_offline_where_no_login_is_known(tiny, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    notes = []
    with feeding(tmp_path, logged(tiny(), "wandb"), 0, notes.append) as send:
        for line in LINES:
            send(line)
    assert notes == []


def test_a_run_keeps_its_name_and_id(tmp_path):
    (tmp_path / "trackers").mkdir()
    sent = {"id": "0123456789abcdef", "step": 6, "points": 1}
    (tmp_path / "trackers" / "wandb.json").write_text(json.dumps(sent))
    assert sink._id_in(tmp_path, "wandb") == sent["id"]
    assert sink._id_in(tmp_path, "mlflow") == sink._id_in(tmp_path, "mlflow") != sent["id"]
    assert TrackedRun(tmp_path / "a" / ".." / "b", "0", {}, 0).name == "b"


def test_trackers_are_no_part_of_a_run_and_what_one_lacks_is_named_before_it(monkeypatch):
    plain, both = resolve("layers=1"), resolve("layers=1 log=[wandb, tensorboard]")
    assert both.run.trackers == ("wandb", "tensorboard")
    assert identity(plain) == identity(both)
    assert "log" not in plain.model_dump()["run"]
    assert with_settings(plain, ["log=wandb"]).run.log == "wandb"
    assert with_settings(both, ["log=none"]).run.trackers == ()
    monkeypatch.setattr(metrics, "find_spec", lambda name: name != "wandb" or None)
    with pytest.raises(MissingInputError, match="wandb is not installed") as error:
        metrics.refuse_untracked(["wandb"], feeding)
    assert "-e '.[wandb]'" in error.value.help
    with pytest.raises(UsageError, match="log=tensorboard needs what feeds it"):
        metrics.refuse_untracked(["tensorboard"], None)
    metrics.refuse_untracked([], None)
