"""``--profile``: what it leaves, and that it changes nothing."""

import errno
import json
import os
import sys
from functools import partial

import pytest
import torch

from bertc.api import resolve
from bertc.bench import contender
from bertc.cli import main
from bertc.diagnostics import CannotWriteError
from bertc.estimate import estimate
from bertc.estimate.beside import beside
from bertc.host.machine import make_plan
from bertc.host.profile import PROFILED_STEPS, _write, profiling
from bertc.train.loop import train
from tests.kinds import PARTS_OF_A_STEP as PARTS


def test_a_run_with_a_profile_is_the_same_run(tiny, tmp_path, same_run, cache):
    train(tiny(), tmp_path / "plain", cache=cache, quiet=True)
    profile = tmp_path / "profile"
    report = train(tiny(), tmp_path / "seen", cache=cache, quiet=True, profile=profile)
    same_run(tmp_path / "plain", tmp_path / "seen")
    assert json.loads((profile / "main" / "trace.json").read_text())["traceEvents"]
    table = (profile / "main" / "ops.txt").read_text()
    assert table.startswith("3 steps")
    assert "aten::" in table
    assert [row.part for row in report.where["main"]] == [*PARTS, "rest"]
    assert "stage main" in report.summary()
    assert json.loads(report.as_json())["where"]["main"][0]["part"] == "embeddings"


PARTS_OF = {
    "eager": "compile=off",
    "recomputed": "compile=off recompute=on",
    "two networks": "compile=off objective=rtd*50+mlm generator=0.5",
    "relative": "compile=off attention=relative objective=plm",
    "compiled": "compile=on",
}


@pytest.mark.filterwarnings("ignore")  # The compiler's own.
@pytest.mark.parametrize("way", PARTS_OF)
def test_forward_and_backward_are_of_their_parts(way, monkeypatch):
    """The profiler's times are no test's matter; what they are of is, and so is memory."""
    torch._dynamo.reset()
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    spec = "layers=2 hidden=32 heads=2 seq=16 batch=8 microbatch=4 vocab=wordpiece(200) steps=10"
    resolved = resolve(f"{spec} {PARTS_OF[way]} device=cpu precision=fp32")
    own = contender.bertc(resolved, make_plan(resolved), "bertc")
    with own.open() as step, profiling(None, torch.device("cpu")) as recording:
        for _ in range(PROFILED_STEPS):
            step()
            recording.step_is_done()
    measured = recording.measured
    assert measured is not None
    layers = {"layers"} if way == "compiled" else {"attention", "ffn"}
    assert {"embeddings", "head", "optimiser"} | layers <= set(measured.seconds)
    assert ("layers" in measured.seconds) == (way == "compiled")
    assert sum(measured.seconds.values()) < measured.step_seconds
    assert "optimiser" not in measured.activations_bytes
    rows = beside(estimate(resolved, "cpu").stages[0].where, measured, 2 * measured.step_seconds)
    assert sum(row.measured_seconds for row in rows) == pytest.approx(2 * measured.step_seconds)
    for row in rows:
        if row.part in layers - {"layers"} and way in ("eager", "two networks"):
            estimated = row.estimated_activations_bytes
            assert 0.7 * estimated < row.measured_activations_bytes < 2 * estimated


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


def test_a_profile_for_which_there_is_no_room_leaves_nothing(tmp_path):
    class Full:
        def key_averages(self):
            return self

        def table(self, **_):
            return ""

        def export_chrome_trace(self, path):
            (tmp_path / "trace.json.tmp").write_text("a part")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(CannotWriteError, match="disk is full"):
        _write(tmp_path, torch.device("cpu"), Full())
    assert list(tmp_path.iterdir()) == []
