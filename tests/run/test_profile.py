"""``--profile``: what it leaves, and that it changes nothing."""

import json
import sys

import pytest

from bertc.base.diagnostics import CannotWriteError
from bertc.cli import main
from bertc.run.train.loop import train
from tests.kinds import PARTS_OF_A_STEP as PARTS


def test_a_run_with_a_profile_is_the_same_run(tiny, tmp_path, same_run, go):
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
