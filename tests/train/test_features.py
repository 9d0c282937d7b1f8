"""Heads over layers of a frozen network: counted as built, computed as kept, in use as trained."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bertc.api import points
from bertc.train import finish
from bertc.train.loop import train
from tests.net.programs import FARM, TOY
from tests.train.test_lessons import losses, text

TUNED = {**TOY, "recipe": "bert", "seq": "24", "steps": "4", "layers": "3", "dropout": "0.1"}
CASES = {
    "labels": ('glue(rte, "RTE")', "concat(last=2)"),
    "mixed": (
        'glue(rte, "RTE", head=bilstm(6)) + glue(sst2, "SST-2", dropout=0)',
        "weighted-sum(all)",
    ),
    "tags": ('tagging("tags", head=bilstm(6, 2), dropout=0)', "second-to-last"),
    "choices": ('race("race")', "sum(2)"),
    "spans": ('squad(".", version=2)', "concat(2)"),
    "pooled": ('glue(rte, "RTE", dropout=0)', "last"),
}


@pytest.fixture(autouse=True)
def in_the_farm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FARM)
    monkeypatch.setattr(finish, "plot", lambda lines, path: path.touch())


def program(kind: str, **changed: str) -> Any:
    task, features = CASES[kind]
    own = {"objective": task, "features": features, "freeze": "all"}
    return points(text(TUNED, **{**own, **changed}))[0]


def weights(run: Path) -> dict[str, torch.Tensor]:
    return load_file(max((run / "checkpoints").glob("step-*")) / "weights.safetensors")


@pytest.mark.parametrize("kind", CASES)
def test_what_is_kept_trains_as_what_is_computed(kind: str, tmp_path: Path) -> None:
    for how in ("off", "fp32"):
        resolved = program(kind, features_cache=how)
        train(resolved, tmp_path / how, cache=tmp_path / "cache", quiet=True)
    computed, kept = losses(tmp_path / "off"), losses(tmp_path / "fp32")
    assert len(computed) == 4
    for one, same in zip(computed, kept, strict=True):
        assert same == pytest.approx(one, rel=2e-5, abs=1e-6)
