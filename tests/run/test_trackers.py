"""Trackers get a run's figures from their own libraries, and none of them harms the run."""

import json
from importlib.util import find_spec

import pytest

from bertc.api import resolve
from bertc.base.diagnostics import MissingInputError, UsageError
from bertc.lab.results.curves import curves
from bertc.lab.trackers import sink
from bertc.lab.trackers.sink import feeding
from bertc.lab.trackers.tracked import TrackedRun
from bertc.run.records import metrics
from bertc.run.records.folder import identity
from bertc.run.records.longer import with_settings

LINES = [
    {"kind": kind, "step": step, "stage": "main", "tokens": step * 64, "seconds": step / 2,
     "loss": 5.0 - step / 10, "losses": {"mlm": 5.0 - step / 10}}
    for step, kind in ((2, "train"), (4, "train"), (4, "eval"), (6, "train"))
]  # fmt: skip


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
    runs = []
    trackers = {"wandb": Kept(), "trackio": Kept(fails=True)}
    monkeypatch.setattr(sink, "sink_of", lambda name, run: (runs.append(run), trackers[name])[1])
    notes = []
    for step in (0, 4):
        with feeding(tmp_path, logged(tiny(), "trackio", "wandb"), step, notes.append) as send:
            for line in LINES:
                send(line)
    assert trackers["wandb"].points[:4] == [
        (2, "train", 128.0), (4, "train", 128.0), (4, "eval", None), (6, "train", 128.0)
    ]  # fmt: skip
    assert (trackers["wandb"].closed, trackers["trackio"].closed) == (2, 0)
    assert len(trackers["wandb"].points) == 8
    assert len(trackers["trackio"].points) == 2
    reason = "its disk\\x1b[31m is full"
    warning = f"warning: trackio failed and gets no more figures of this run: {reason}"
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


def test_a_run_of_before_keeps_its_id(tmp_path):
    (tmp_path / "trackers").mkdir()
    sent = {"id": "0123456789abcdef", "step": 6, "points": 1}
    (tmp_path / "trackers" / "wandb.json").write_text(json.dumps(sent))
    assert sink._id_in(tmp_path, "wandb") == sent["id"]
    assert sink._id_in(tmp_path, "mlflow") == sink._id_in(tmp_path, "mlflow") != sent["id"]


def test_trackers_are_no_part_of_what_a_run_computes():
    plain, both = resolve("layers=1"), resolve("layers=1 log=[wandb, tensorboard]")
    assert both.run.trackers == ("wandb", "tensorboard")
    assert identity(plain) == identity(both)
    assert "log" not in plain.model_dump()["run"]
    assert with_settings(plain, ["log=wandb"]).run.log == "wandb"
    assert with_settings(both, ["log=none"]).run.trackers == ()


def test_a_missing_package_is_named_before_the_run(monkeypatch):
    monkeypatch.setattr(metrics, "find_spec", lambda name: None)
    with pytest.raises(MissingInputError, match="wandb is not installed") as error:
        metrics.refuse_untracked(["wandb"], feeding)
    assert "-e '.[wandb]'" in error.value.help


def test_a_run_is_named_by_its_folder(tmp_path):
    assert TrackedRun(tmp_path / "a" / ".." / "b", "0", {}, 0).name == "b"


def test_trackers_without_what_feeds_them_are_refused():
    with pytest.raises(UsageError, match="log=tensorboard needs what feeds it"):
        metrics.refuse_untracked(["tensorboard"], None)
    metrics.refuse_untracked([], None)
