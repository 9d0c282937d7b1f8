"""Figures on their way to trackers: each is sent once, and no tracker harms the run."""

import json
import subprocess
import sys
import threading
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from bertc.api import resolve
from bertc.diagnostics import CannotWriteError, MissingInputError, StoppedError, UsageError
from bertc.runs.curves import curves
from bertc.runs.folder import identity
from bertc.runs.longer import with_settings
from bertc.trackers import beside, sync, tracker
from bertc.trackers.mlflow import mlflow_name
from bertc.trackers.tracker import TrackedRun
from bertc.train.loop import train


def line(step, kind="train", seconds=0.0):
    loss = 5.0 - step / 10
    return {
        "kind": kind,
        "step": step,
        "stage": "main",
        "tokens": step * 64,
        "seconds": step / 2 + seconds,
        "loss": loss,
        "losses": {"mlm": loss},
    }


def write(folder, lines):
    text = "".join(json.dumps(each) + "\n" for each in lines)
    (folder / "metrics.jsonl").write_text(text)


def take_up(folder, step, time):
    attempt = {"step": step, "time": time, "host": "h", "device": "cpu", "processes": 1}
    with open(folder / "attempts.jsonl", "a") as file:
        file.write(json.dumps(attempt) + "\n")


FIRST = [line(2), line(4), line(4, "eval"), line(6)]
RESUMED = [line(2), line(4), line(4, "eval"), line(6, seconds=9), line(8, seconds=9)]


@pytest.fixture
def run(tiny, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "resolved.json").write_text(tiny().model_dump_json())
    take_up(folder, 0, 1000.0)
    write(folder, FIRST)
    return folder


class Kept:
    """A tracker in memory, which may fail."""

    def __init__(self, fails=False):
        self.place, self.points, self.times, self.fails, self.closed = "here", [], [], fails, 0

    def record(self, points, times):
        if self.fails:
            raise OSError("its disk\x1b[31m is full\nand more")
        self.points += [(point.step, point.kind) for point in points]
        self.times += times

    def close(self):
        self.closed += 1


@pytest.fixture
def kept(monkeypatch):
    trackers = {"wandb": Kept(), "trackio": Kept(fails=True)}
    monkeypatch.setattr(sync, "recorder_of", lambda name, run: trackers[name])
    monkeypatch.setattr(sync, "refuse_missing", lambda names: None)
    return trackers


def test_what_a_resumed_run_did_once_more_is_sent_once(run, kept):
    assert sync.send_missing(run, ["wandb"]) == [f"{run}: wandb was sent 4 lines (here)"]
    take_up(run, 4, 2000.0)
    write(run, RESUMED)
    assert sync.send_missing(run) == [f"{run}: wandb was sent 1 lines (here)"]
    assert sync.send_missing(run) == [f"{run}: wandb has all lines"]
    assert kept["wandb"].points == [
        (2, "train"), (4, "train"), (4, "eval"), (6, "train"), (8, "train")
    ]  # fmt: skip
    # Seconds of training since the attempt began: 2 until step 4, 13 until step 8.
    assert kept["wandb"].times == [1001.0, 1002.0, 1002.0, 1003.0, 2011.0]
    assert kept["wandb"].closed == 2


def test_a_tracker_that_fails_is_told_once_and_gets_all_later(run, kept):
    ended, told = threading.Event(), []

    def say(text):
        told.append(text)
        ended.set()

    # One tracker does not keep the other from its figures.
    assert not beside.follow(run, ["trackio", "wandb"], ended, say, wait_seconds=0.01)
    assert told == [
        f"trackio failed: its disk\\x1b[31m is full; bertc runs sync {run} sends what is missing"
    ]
    assert len(kept["wandb"].points) == 4
    with pytest.raises(CannotWriteError, match="its disk"):
        sync.send_missing(run, ["trackio"])
    kept["trackio"].fails = False
    assert sync.send_missing(run, ["trackio"]) == [f"{run}: trackio was sent 4 lines (here)"]


def test_one_process_sends_at_a_time_and_trackers_are_known(run, kept):
    delivery = sync.Delivery(run, "wandb")
    with pytest.raises(StoppedError, match="another process"):
        sync.send_missing(run, ["wandb"])
    delivery.release()
    with pytest.raises(UsageError, match="no tracker 'tensorbord'"):
        sync.trackers_of(run, ["tensorbord"])
    with pytest.raises(UsageError, match="has no tracker"):
        sync.trackers_of(run)


@pytest.mark.skipif(find_spec("tensorboard") is None, reason="needs tensorboard")
def test_event_files_of_tensorboard_hold_the_metrics(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    sync.send_missing(run, ["tensorboard"])
    take_up(run, 4, 2000.0)
    write(run, RESUMED)
    sync.send_missing(run)
    found = EventAccumulator(str(run / "tensorboard"))
    found.Reload()
    there = curves(run)
    assert {*found.Tags()["scalars"]} == {*there.names}
    for name in ("train/loss", "train/loss/mlm", "eval/loss"):
        steps, values = there.of(name, "step")
        scalars = found.Scalars(name)
        assert [scalar.step for scalar in scalars] == steps
        assert [scalar.value for scalar in scalars] == pytest.approx(values, rel=1e-6)


def test_trackio_is_told_no_name_of_its_own_and_is_silent(run, monkeypatch, capsys):
    logged, ended = {}, []

    def init(project, name, config, resume, embed, auto_log_gpu, auto_log_cpu):
        print("see your project by ...")
        assert (project, resume, auto_log_cpu) == ("bertc", "allow", False)
        assert config["layers"]
        return SimpleNamespace(log=lambda values, step: logged.setdefault(step, []).append(values))

    def finish():
        ended.append(print("finished"))

    module = SimpleNamespace(init=init, finish=finish, __spec__=True)
    monkeypatch.setitem(sys.modules, "trackio", module)
    sync.send_missing(run, ["trackio"])
    assert [*logged] == [2, 4, 6]
    assert [each["when"] for each in logged[4]] == ["1970-01-01T00:16:42+00:00"] * 2
    assert logged[4][1]["eval/loss"] == 4.6
    reserved = {"project", "run", "timestamp", "step", "time", "metrics"}
    assert not reserved & {name for values in logged.values() for each in values for name in each}
    assert ended
    assert not capsys.readouterr().out


def test_a_hanging_tracker_is_left_behind_and_told(tmp_path, monkeypatch):
    def hangs(folder, trackers, note):
        pipe = subprocess.PIPE
        return subprocess.Popen(["sleep", "60"], stdin=pipe, stdout=pipe, start_new_session=True)

    monkeypatch.setattr(beside, "_started", hangs)
    monkeypatch.setattr(beside, "END_SECONDS", 0.05)
    told = []
    with beside.alongside(tmp_path, ["wandb"], told.append):
        pass
    (warning,) = told
    assert f"bertc runs sync {tmp_path} sends what is missing" in warning


def test_a_tracker_that_raises_changes_nothing_of_a_run(tiny, tmp_path, monkeypatch, capfd, cache):
    (tmp_path / "trackio.py").write_text("raise OSError('never')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{':'.join(filter(None, sys.path))}")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(beside, "END_SECONDS", 60.0)
    program = tiny()
    logged = program.model_copy(update={"run": program.run.model_copy(update={"log": "trackio"})})
    weights = []
    for name, each in (("plain", program), ("logged", logged)):
        train(each, tmp_path / name, cache=cache, quiet=name == "plain")
        weights.append((tmp_path / name / "model" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    warning = f"bertc runs sync {tmp_path / 'logged'} sends what is missing"
    assert capfd.readouterr().err.replace("\n", " ").count(warning) == 1


def test_trackers_are_no_part_of_what_a_run_computes():
    plain, logged = resolve("layers=1"), resolve("layers=1 log=[wandb, tensorboard]")
    assert logged.run.trackers == ("wandb", "tensorboard")
    assert identity(plain) == identity(logged)
    assert "log" not in plain.model_dump()["run"]
    assert with_settings(plain, ["log=wandb"]).run.log == "wandb"
    assert with_settings(logged, ["log=none"]).run.trackers == ()


def test_a_missing_package_is_named_before_the_run(monkeypatch):
    monkeypatch.setattr(tracker, "find_spec", lambda name: None)
    with pytest.raises(MissingInputError, match="wandb is not installed") as error:
        tracker.refuse_missing(["wandb"])
    assert "-e '.[wandb]'" in error.value.help


def test_names_and_runs_as_trackers_take_them(tmp_path):
    assert mlflow_name("train/loss/kd(logits)") == "train/loss/kd_logits_"
    assert TrackedRun(tmp_path / "a" / ".." / "b", "0").name == "b"
