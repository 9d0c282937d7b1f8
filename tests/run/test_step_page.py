"""docs/step.md names the functions of a step in the order in which they run."""

import json
import re
import sys
from pathlib import Path
from types import FrameType

import pytest

from bertc.api import resolve
from bertc.run.train.loop import train

ROOT = Path(__file__).parents[2]
ROWS = re.findall(
    r"^\| `([\w.]+)` \| `([\w/]+\.py)` \|", (ROOT / "docs" / "step.md").read_text(), re.MULTILINE
)
ELSEWHERE = {"StageData.train", "Teaching.__call__"}
"""Runs in another thread; and with a teacher alone."""
NOT_ADAM, NOT_LAMB, NOT_MUON = (
    {"clip_tensors", "clip", "ForeachRule.update", "MuonRule.update"},
    {"guard", "AdamRule.update", "MuonRule.update"},
    {
        "clip_tensors",
        "guard",
        "ForeachRule.update",
        "AdamRule.update",
    },  # it calls that after its own
)
"""Functions that a run with an update rule does not call."""


def calls(spec: str, out: Path, cache: Path) -> list[tuple[str, str]]:
    """The functions of the package that a run calls, with their files, in order."""
    called = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and "/bertc/" in file:
            name = frame.f_code.co_qualname.partition(".<locals>")[0]
            called.append((name, file.rpartition("/bertc/")[2]))

    resolved = resolve(spec)
    sys.setprofile(note)
    try:
        train(resolved, out, quiet=True, cache=cache)
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize(
    ("rule", "of_another"),
    [
        ("adamw(clip=0.001)", NOT_ADAM),
        ("lamb(clip=0.001, clip_per=tensor)", NOT_LAMB),
        ("muon(clip=0.001)", NOT_MUON),
    ],
)
def test_functions_run_in_the_order_of_the_page(rule, of_another, corpus_file, tmp_path):
    spec = (
        "layers=1 hidden=16 heads=1 seq=24 batch=64 steps=1 vocab=wordpiece(120) holdout=0.2 "
        "precision=fp32 compile=off device=cpu objective=rtd*50+mlm generator=0.5 "
        "average=ema(1) "
        f"optimizer={rule} data=files({json.dumps(str(corpus_file))}, sentences=lines)"
    )
    rows = [row for row in ROWS if row[0] not in ELSEWHERE | of_another]
    called = calls(spec, tmp_path / "run", tmp_path / "cache")
    left = iter(called)
    for row in rows:
        assert row in called, f"{row} is not called"
        assert row in left, f"{row} is called earlier than the page says"


def test_files_from_a_spec_to_its_loss_are_few_and_there():
    text = (ROOT / "docs" / "step.md").read_text().partition("## One step")[0]
    files = [file for file in re.findall(r"`([\w/]+\.py)`", text) if not file.startswith("tests")]
    assert len(files) == len({*files}) <= 25
    assert [file for file in files if not (ROOT / "bertc" / file).is_file()] == []


def test_functions_that_the_page_names_are_there():
    assert len(ROWS) > 25
    for name, file in ROWS:
        text = (ROOT / "bertc" / file).read_text()
        *kind, function = name.split(".")
        assert all(f"class {each}" in text for each in kind)
        assert f"def {function}(" in text, (name, file)
