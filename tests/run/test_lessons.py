"""What teachers say of a task's examples, kept on disk: the same as computed, whole, and found."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bertc.api import check, estimate, points
from bertc.base.diagnostics import DataError, Diagnostics, StoppedError
from bertc.ir.program.lessons import Counts, kept_by, lesson_bytes, lesson_shapes
from bertc.run.beginning import lessons
from bertc.run.train import lessons as keeping
from bertc.run.train.loop import train
from tests.net.programs import TOY
from tests.run.test_training import stop_after

pytestmark = pytest.mark.usefixtures("in_the_farm")

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


class Made:
    """A cache, and a teacher of two layers for each question, trained when it is first asked."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self.folder = folder

    def teacher(self, task: str) -> Path:
        run = self.folder / str([each for each, _ in TASKS.values()].index(task))
        if not run.exists():
            resolved = points(text(TUNED, objective=task, steps="1"))[0]
            train(resolved, run, cache=self.cache, quiet=True)
        return run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("lessons"))


def student(made: Made, kind: str, **changed: str) -> Any:
    task, terms = TASKS[kind]
    own = {"layers": "1", "vocab": "", "teacher": f'"{made.teacher(task)}"'}
    return points(text(TUNED, **{**own, "objective": f"{task} + {terms}", **changed}))[0]


def weights(run: Path) -> dict[str, torch.Tensor]:
    last = max((run / "checkpoints").glob("step-*"))
    return load_file(last / "weights.safetensors")


def losses(run: Path) -> list[dict[str, float]]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [line["losses"] for line in map(json.loads, lines) if line["kind"] == "train"]


@pytest.mark.parametrize("kind", TASKS)
def test_what_is_kept_teaches_as_what_is_computed(kind: str, made: Made, tmp_path: Path) -> None:
    for how in ("off", "fp32", "fp16"):
        resolved = student(made, kind, teacher_cache=how)
        train(resolved, tmp_path / how, cache=made.cache, quiet=True)
    computed, exact, rounded = (losses(tmp_path / how) for how in ("off", "fp32", "fp16"))
    for one, same, near in zip(computed, exact, rounded, strict=True):
        assert same == pytest.approx(one, rel=2e-5, abs=1e-6)
        assert near == pytest.approx(one, rel=2e-2, abs=1e-4)


@pytest.mark.parametrize("kind", ["labels", "tags"])
def test_a_run_goes_on_to_the_same_bits_and_asks_no_teacher_twice(
    kind: str, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = student(made, kind, teacher_cache="fp16", seed="1")
    train(resolved, tmp_path / "straight", cache=made.cache, quiet=True)
    monkeypatch.setattr(lessons, "_ask", lambda *_: pytest.fail("it was asked before"))
    with pytest.raises(StoppedError):
        stop_after(
            monkeypatch, 2, lambda: train(resolved, tmp_path / "run", cache=made.cache, quiet=True)
        )
    train(resolved, tmp_path / "run", cache=made.cache, quiet=True, resume=True)
    one, other = weights(tmp_path / "straight"), weights(tmp_path / "run")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_auto_keeps_scores_of_examples_that_are_read_twice(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = student(made, "labels", steps="400")
    (stage,) = often.stages
    assert kept_by(stage, 400 * stage.batch // 2) == "fp32"
    assert kept_by(stage, 400 * stage.batch // 2 + 1) == "off"
    assert kept_by(student(made, "states", steps="400").stages[0], 2) == "off"
    assert kept_by(student(made, "labels", teacher_cache="fp16").stages[0], 10**9) == "fp16"
    labels, first = lesson_shapes(stage, stage.tasks[0].title)
    assert (labels.widths, first.widths) == ((2,), (stage.teacher[0].shape.body.hidden,))
    size = lesson_bytes((labels, first), Counts(10, 70, 10), "fp16")
    assert size == 2 * 10 * (2 + first.widths[0])
    assert "kept_bytes" in str(estimate(often).as_json())
    assert "teacher_cache" in str(estimate(often))
    asked = student(made, "labels", steps="400", teacher_cache="off")
    saved, whole = estimate(often).flops, estimate(asked).flops
    rows = stage.tasks[0].examples
    assert saved.frozen_per_example == pytest.approx(
        whole.frozen_per_example * rows / (400 * stage.batch), rel=1e-3
    )
    assert whole.train_total - saved.train_total == pytest.approx(
        400 * stage.batch * (whole.frozen_per_example - saved.frozen_per_example), rel=1e-6
    )


def test_a_full_disk_keeps_nothing_by_itself_and_a_begun_run_goes_on_as_it_began(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = student(made, "labels", steps="6", batch="16", seed="2")
    assert kept_by(resolved.stages[0], resolved.stages[0].tasks[0].examples) == "fp32"
    with monkeypatch.context() as patched:
        patched.setattr(keeping, "MOST_OF_DISK", 0.0)
        with pytest.raises(StoppedError):
            stop_after(
                patched, 2, lambda: train(resolved, tmp_path / "run", cache=made.cache, quiet=True)
            )
    train(resolved, tmp_path / "run", cache=made.cache, quiet=True, resume=True)
    assert json.loads((tmp_path / "run" / "lock.json").read_text())["plan"]["lessons"] == ["off"]
    train(resolved, tmp_path / "kept", cache=made.cache, quiet=True)
    assert json.loads((tmp_path / "kept" / "lock.json").read_text())["plan"]["lessons"] == ["fp32"]


def test_what_is_interrupted_leaves_nothing_behind(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = student(made, "labels", teacher_cache="fp32")
    cache = tmp_path / "cache"
    with monkeypatch.context() as patched:
        patched.setattr(lessons, "store_batch", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train(resolved, tmp_path / "run", cache=cache, quiet=True)
    assert not [each for each in (cache / "lessons").iterdir() if each.is_dir()]
    train(resolved, tmp_path / "run", cache=cache, quiet=True, resume=True)


def test_numbers_beyond_fp16_are_refused(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaled = torch.Tensor.float
    monkeypatch.setattr(torch.Tensor, "float", lambda self: scaled(self) * 1e6)
    resolved = student(made, "labels", teacher_cache="fp16")
    with pytest.raises(DataError, match="more than fp16 holds"):
        train(resolved, tmp_path / "run", cache=tmp_path / "cache", quiet=True)


def test_asking_to_keep_where_nothing_is_fixed_is_remarked_on() -> None:
    found = Diagnostics()
    assert check(text(TOY, objective="mlm", teacher_cache="fp32"), diagnostics=found) == 1
    assert [each.code for each in found.remarks] == ["R114"]
