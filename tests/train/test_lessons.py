"""What teachers say of a task's examples, kept on disk: the same as computed, whole, and found."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bertc.api import points
from bertc.train import finish
from bertc.train.loop import train
from tests.net.programs import FARM, TOY

RTE = 'glue(rte, "RTE", dropout=0)'
TUNED = {**TOY, "recipe": "bert", "seq": "24", "steps": "4"}
TASKS = {
    "labels": (RTE, "kd(logits) + kd(cls, layers=last)"),
    "states": (RTE, "kd(hidden) + kd(embeddings)"),
    "attention": (RTE, "kd(attention) + kd(relations, heads=2)"),
    "spans": ('squad(".", version=2)', "kd(logits)"),
    "choices": ('race("race")', "kd(logits)"),
    "tags": ('tagging("tags")', "kd(logits, T=2)"),
    "two tasks": (f'{RTE} + glue(sst2, "SST-2")', "kd(logits) + kd(cls, layers=last)"),
}


def text(settings: dict[str, str], **changed: str) -> str:
    return " ".join(f"{name}={value}" for name, value in {**settings, **changed}.items() if value)


@pytest.fixture(autouse=True)
def in_the_farm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FARM)
    monkeypatch.setattr(finish, "plot", lambda lines, path: path.touch())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Path]]:
    """A cache, and a teacher of two layers for each question."""
    folder = tmp_path_factory.mktemp("lessons")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(FARM)
        patched.setattr(finish, "plot", lambda lines, path: path.touch())
        teachers = {}
        for number, task in enumerate(dict.fromkeys(task for task, _ in TASKS.values())):
            teachers[task] = folder / str(number)
            spec = text(TUNED, objective=task, steps="1")
            train(points(spec)[0], teachers[task], cache=folder / "text", quiet=True)
    return folder / "text", teachers


def student(made: tuple[Path, dict[str, Path]], kind: str, **changed: str) -> Any:
    task, terms = TASKS[kind]
    own = {"layers": "1", "vocab": "", "teacher": f'"{made[1][task]}"'}
    return points(text(TUNED, **{**own, "objective": f"{task} + {terms}", **changed}))[0]


def weights(run: Path) -> dict[str, torch.Tensor]:
    last = max((run / "checkpoints").glob("step-*"))
    return load_file(last / "weights.safetensors")


def losses(run: Path) -> list[dict[str, float]]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [line["losses"] for line in map(json.loads, lines) if line["kind"] == "train"]


@pytest.mark.parametrize("kind", TASKS)
def test_what_is_kept_teaches_as_what_is_computed(
    kind: str, made: tuple[Path, dict[str, Path]], tmp_path: Path
) -> None:
    for how in ("off", "fp32", "fp16"):
        resolved = student(made, kind, teacher_cache=how)
        train(resolved, tmp_path / how, cache=made[0], quiet=True)
    computed, exact, rounded = (losses(tmp_path / how) for how in ("off", "fp32", "fp16"))
    for one, same, near in zip(computed, exact, rounded, strict=True):
        assert same == pytest.approx(one, rel=2e-5, abs=1e-6)
        assert near == pytest.approx(one, rel=2e-2, abs=1e-4)
