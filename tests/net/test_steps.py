"""Tiny runs see, bit for bit, what they saw, and run folders written before go on as they were."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.models.runs import export_run
from bertc.run.records.folder import RunFolder
from bertc.run.train.loop import train
from tests.net import goldens, steps
from tests.net.programs import FARM, PROGRAMS, UNTRAINED, copied

OLD_RUNS = Path(__file__).parent / "old_runs"
NAMES = ("electra", "task")


def used(name: str, folder: Path) -> dict[str, Any]:
    """Go on with a copy of a run, and evaluate and export it before and after that."""
    run, cache = folder / name, folder / "cache"
    copied(OLD_RUNS / name, run)
    before = _used(run, cache, folder / f"{name} before")
    train(RunFolder(run).read_resolved(), run, resume=True, cache=cache, quiet=True)
    return {
        "fingerprint": RunFolder(run).read_resolved().fingerprint(), "before": before,
        "metrics": steps.metrics(run), "after": _used(run, cache, folder / f"{name} after"),
    }  # fmt: skip


def _used(run: Path, cache: Path, exported: Path) -> dict[str, Any]:
    evaluated = evaluate_run(run, cache=cache, quiet=True).evaluation
    assert evaluated is not None
    written = export_run(run, exported)
    return {
        "losses": dict(evaluated.losses),
        "class": written.architecture,
        "config": json.loads((exported / "config.json").read_text()),
        "weights": {
            str(file.relative_to(exported)): steps.weights(file)
            for file in sorted(exported.rglob("*.safetensors"))
        },
    }


@pytest.mark.parametrize("name", NAMES)
def test_an_old_run_is_read_as_it_was(name, tmp_path, monkeypatch):
    monkeypatch.chdir(FARM)
    steps.assert_same(goldens.read("older.json.xz")[name], used(name, tmp_path))


def test_old_runs_name_no_place_of_the_machine_that_wrote_them():
    texts = [f for f in OLD_RUNS.rglob("*") if f.suffix in (".json", ".jsonl", ".bertc")]
    assert texts
    assert not [f for f in texts if '"/' in f.read_text() or "/home" in f.read_text()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(FARM)
        torch.use_deterministic_algorithms(True)
        yield tmp_path_factory.mktemp("net")
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in UNTRAINED])
def test_a_run_sees_and_learns_what_it_did(name, folder):
    now = steps.trained(name, folder / name.replace(" ", "-"))
    steps.assert_same(goldens.read("steps.json.xz")[steps.variant(name)], now)
