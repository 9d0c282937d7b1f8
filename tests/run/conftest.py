"""A tiny program and a tiny corpus, so that a whole run takes a second."""

import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bertc import cli, lang
from bertc.api import points
from bertc.base.diagnostics import StoppedError
from bertc.check.passes import resolve
from bertc.ir.program.resolved import Resolved
from bertc.ir.written import Given, Origin, Program, StageGiven
from bertc.lang import show_value
from bertc.learn.step.step import TrainStep
from bertc.run.train import loop, phase
from bertc.run.train.loop import train
from bertc.run.train.report import Report
from bertc.run.train.session import Session
from tests.net.programs import FARM

WORDS = (
    "hens", "ducks", "geese", "cackle", "quack", "hiss", "in", "on", "under", "the",
    "a", "old", "red", "barn", "pond", "gate", "and", "or",
)  # fmt: skip


@pytest.fixture(scope="session")
def corpus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty documents of a few simple sentences, the same every time."""
    draw = random.Random(7)
    documents = []
    for _ in range(60):
        sentences = [
            " ".join(draw.choices(WORDS, k=draw.randint(5, 12))).capitalize() + "."
            for _ in range(draw.randint(4, 9))
        ]
        documents.append("\n".join(sentences))
    path = tmp_path_factory.mktemp("corpus") / "farm.txt"
    path.write_text("\n\n".join(documents) + "\n")
    return path


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for the runs of tiny programs."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """Run commands in this folder, with the cache of all tests."""
    monkeypatch.setenv("BERTC_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def options(cache: Path) -> dict[str, Any]:
    """Train quietly, with one cache."""
    return {"cache": cache, "quiet": True}


@pytest.fixture
def nothing_compiled() -> Iterator[None]:
    """Begin without graphs of other tests, and leave none."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture(scope="session")
def farm_run(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Callable[[str], Path]:
    """The run folder of a tiny program, trained once for all tests that begin with it."""
    folders: dict[str, Path] = {}

    def trained(spec: str) -> Path:
        if spec not in folders:
            folder = tmp_path_factory.mktemp("farm") / "bert"
            with pytest.MonkeyPatch.context() as patched:
                patched.chdir(FARM)
                train(points(spec)[0], folder, cache=cache, quiet=True)
            folders[spec] = folder
        return folders[spec]

    return trained


@pytest.fixture(scope="session")
def finished(tiny: Callable[..., Resolved], tmp_path_factory: Any, cache: Path) -> Path:
    """The run of the tiny program, which no test changes."""
    folder: Path = tmp_path_factory.mktemp("finished") / "run"
    train(tiny(), folder, cache=cache, quiet=True)
    return folder


def text(settings: dict[str, str], **changed: str) -> str:
    """The spec of settings; those that are empty are left out."""
    return " ".join(f"{name}={value}" for name, value in {**settings, **changed}.items() if value)


def tensors_at(run: Path, step: int, name: str = "weights") -> dict[str, torch.Tensor]:
    """Weights, or another table, of the checkpoint of a step."""
    return load_file(run / "checkpoints" / f"step-{step:08d}" / f"{name}.safetensors")


def weights(run: Path) -> dict[str, torch.Tensor]:
    """The weights of the newest checkpoint."""
    return load_file(max((run / "checkpoints").glob("step-*")) / "weights.safetensors")


def given(values: dict[str, object]) -> dict[str, Given]:
    """Settings by their texts, or by values that no text has, such as the size of a tokenizer."""
    texts = {n: v if isinstance(v, str) else show_value(v) for n, v in values.items()
             if isinstance(v, str | int | float)}  # fmt: skip
    (program,) = lang.load(text(texts))
    others = {name: Given(v, Origin("written")) for name, v in values.items() if name not in texts}
    return {**program.settings, **others}


@pytest.fixture(scope="session")
def tiny(corpus_file: Path) -> Callable[..., Resolved]:
    """Two layers of width 32 on the tiny corpus, with settings and stages of one's own.
    A later text counts of settings that are written twice, and what is given by name of all.
    """
    usual = {
        "layers": 2, "hidden": 32, "heads": 2, "seq": 24, "batch": 8, "steps": 12, "dropout": "0.1",
        "vocab": "wordpiece(120)", "data": f"files('{corpus_file}', sentences=lines)",
        "objective": "mlm", "optimizer": "adamw(1e-3, warmup=2)", "holdout": 0.2,
        "eval_examples": 16, "precision": "fp32", "compile": "off", "save_every": 4,
        "eval_every": 6, "log_every": 3, "device": "cpu",
    }  # fmt: skip

    def make(
        *texts: str, stages: dict[str, dict[str, object]] | None = None, **settings: object
    ) -> Resolved:
        values = given(usual)
        blocks = tuple(StageGiven(name, given(own)) for name, own in (stages or {}).items())
        for program in (lang.load(text)[0] for text in texts):
            values, blocks = values | {**program.settings}, blocks + program.stages
        values |= given(settings)
        if blocks and all("steps" in block.settings for block in blocks):
            values.pop("steps")  # the stages say how long they last
        return resolve(Program("tiny", values, blocks))

    return make


@pytest.fixture
def first_weights(go: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A call that tells what a run begins with, by name: it is ended before its first step."""

    def run(resolved: Resolved, name: str = "run") -> dict[str, torch.Tensor]:
        found = {}

        def end(self: Session, stage: object) -> None:
            found.update({n: p.detach().clone() for n, p in self.model.named_parameters()})
            raise KeyError

        with monkeypatch.context() as patch:
            patch.setattr(Session, "enter", end)
            with pytest.raises(KeyError):
                go(resolved, name)
        return found

    return run


def final_tensors(run: Path) -> dict[str, torch.Tensor]:
    """Weights, moments and averages of the newest checkpoint of a run."""
    step = max((run / "checkpoints").glob("step-*"))
    files = (step / f"{kind}.safetensors" for kind in ("weights", "optimizer", "average"))
    tensors = ((f.name, n, t) for f in files if f.exists() for n, t in load_file(f).items())
    return {f"average.{n}" if file[0] == "a" else n: tensor for file, n, tensor in tensors}


def same_run(one: Path, other: Path) -> None:
    """Hold that two runs have the same weights, moments and metrics, to the bit."""
    # Metrics first: they say at which step two runs parted.
    of_one, of_other = ([{**line, "seconds": 0} for line in lines(run)] for run in (one, other))
    assert of_one == of_other
    same_tensors(final_tensors(one), final_tensors(other))


def same_tensors(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    """Hold that two tables have the same tensors, to the bit."""
    assert one.keys() == other.keys()
    assert [name for name, tensor in one.items() if not torch.equal(tensor, other[name])] == []


@pytest.fixture
def go(tmp_path: Path, cache: Path) -> Callable[..., Report]:
    """Train into a folder, quietly, with one cache for all runs of a test."""

    def run(program: Resolved | str, name: str = "run", **options: Any) -> Report:
        resolved = points(program)[0] if isinstance(program, str) else program
        return train(resolved, tmp_path / name, cache=cache, quiet=True, **options)

    return run


def lines(run: Path, kind: str = "") -> list[dict[str, Any]]:
    """The lines of metrics of a run, or those of a kind."""
    found = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line for line in found if kind in ("", line["kind"])]


def after_updates(patch: pytest.MonkeyPatch, act: Callable[[TrainStep, int], object]) -> None:
    """Let ``act`` come after the sums of each update: with its step, and its number from 1 on."""
    real = TrainStep.__call__

    def call(self: TrainStep, inputs: Any, at: int, *others: Any) -> Any:
        result = real(self, inputs, at, *others)
        act(self, at + 1)
        return result

    patch.setattr(TrainStep, "__call__", call)


def change_losses(patch: pytest.MonkeyPatch, change: Callable[..., object]) -> None:
    """Let objectives return what ``change`` makes of their stage, the number of calls and sums."""
    real, calls = phase.make_objective, count(1)

    def made(model: Any, stage: Any, *others: Any) -> Callable[..., object]:
        objective = real(model, stage, *others)
        return lambda *batch: change(stage, next(calls), *objective(*batch))

    patch.setattr(phase, "make_objective", made)


def stop_after(monkeypatch: pytest.MonkeyPatch, step: int, run: Callable[[], object]) -> None:
    """Run until it stops, as it is asked to in the middle of update ``step``."""
    with monkeypatch.context() as patch:
        after_updates(patch, lambda _, at: at == step and signal.raise_signal(signal.SIGTERM))
        with pytest.raises(StoppedError):
            run()


@contextmanager
def stopping(monkeypatch: pytest.MonkeyPatch, step: int, folder: str) -> Iterator[None]:
    """Stop a run in a folder of this name within the update after ``step``."""
    real = loop._step

    def stop(phase: Any, *others: Any) -> Any:
        if folder in str(phase.session.folder.path) and phase.session.progress.step == step:
            phase.session.ranks.stop.agree(15)
        return real(phase, *others)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_step", stop)
        yield


FARMED = "layers=2 hidden=32 heads=2 seq=24 batch=8 steps=4000 vocab=wordpiece(120) holdout=20% "
FARMED += "device=cpu compile=off data=files('{}', sentences=lines) "
"""A run that goes on until it is stopped."""


def train_farm(said: Path, *options: str) -> None:
    """``bertc train`` in a process that has loaded torch; ``said`` gets what it says."""
    for stream, file in ((1, said.with_suffix(".out")), (2, said)):
        with file.open("w") as opened:
            os.dup2(opened.fileno(), stream)
    os.environ |= {"BERTC_CACHE": str(said.parent / "cache"), "OMP_NUM_THREADS": "1"}
    os.chdir(said.parent)
    sys.argv = ["bertc", "train", "farm.bertc", "--out", "run", *options]
    cli.main()


def resumed_is_the_same(go: Any, patch: pytest.MonkeyPatch, folder: Path, *steps: int) -> None:
    """Hold that a run that is stopped after some steps, and resumed, is one that never was."""
    go(folder / "straight")
    for step in steps:
        stop_after(patch, step, lambda: go(folder / "broken", resume=True))
    go(folder / "broken", resume=True)
    same_run(folder / "straight", folder / "broken")


@pytest.fixture
def resumes(go: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The same of a program."""
    return lambda resolved, *steps: resumed_is_the_same(
        partial(go, resolved), monkeypatch, tmp_path, *steps
    )


@pytest.fixture
def barn(tmp_path: Path) -> str:
    """A task of two labels that a few words give away."""
    rows = "hens cackle\ta\nducks quack\tb\ngeese hiss\ta\nold pond\tb\n" * 4
    for part in ("train", "dev"):
        (tmp_path / f"{part}.tsv").write_text(f"text\tlabel\n{rows}")
    files = f"'{tmp_path}/train.tsv', '{tmp_path}/dev.tsv'"
    return f"classify({files}, labels=[a, b], examples=16)"
