"""A tiny program and a tiny corpus, so that a whole run takes a second."""

import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bertc import cli
from bertc.api import points
from bertc.base.diagnostics import StoppedError
from bertc.check.passes import resolve
from bertc.ir.data import Files, Share
from bertc.ir.learning.custom_task import Classify
from bertc.ir.learning.objective import Mlm, Term
from bertc.ir.learning.optimizer import Adam, Polynomial
from bertc.ir.network.layer import Dropout
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.written import Given, Origin, Program, StageGiven
from bertc.ir.vocabulary import WordPiece
from bertc.learn.step.step import TrainStep
from bertc.run.train import loop
from bertc.run.train.loop import train
from bertc.run.train.report import Report
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


@pytest.fixture
def in_the_farm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Go where the paths of the tiny programs begin."""
    monkeypatch.chdir(FARM)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for the runs of tiny programs."""
    return tmp_path_factory.mktemp("cache")


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


def weights(run: Path) -> dict[str, torch.Tensor]:
    """The weights of the newest checkpoint."""
    return load_file(max((run / "checkpoints").glob("step-*")) / "weights.safetensors")


def given(values: dict[str, object]) -> dict[str, Given]:
    return {name: Given(value, Origin("written")) for name, value in values.items()}


@pytest.fixture(scope="session")
def tiny(corpus_file: Path) -> Callable[..., Resolved]:
    """Two layers of width 32 on the tiny corpus, with settings of one's own."""

    def make(*, stages: dict[str, dict[str, object]] | None = None, **settings: object) -> Resolved:
        values: dict[str, object] = {
            "layers": 2, "hidden": 32, "heads": 2, "seq": 24, "batch": 8, "steps": 12,
            "vocab": WordPiece(size=120),
            "data": (Share(corpus=Files(path=str(corpus_file), sentences="lines")),),
            "objective": (Term(objective=Mlm()),),
            "optimizer": Adam(lr=1e-3, warmup=2, schedule=Polynomial()),
            "dropout": Dropout(hidden=0.1, attention=0.1),
            "holdout": 0.2, "eval_examples": 16, "precision": "fp32", "compile": "off",
            "save_every": 4, "eval_every": 6, "log_every": 3, "device": "cpu",
            **settings,
        }  # fmt: skip
        if stages and all("steps" in own for own in stages.values()):
            values.pop("steps")  # the stages say how long they last
        blocks = tuple(StageGiven(name, given(own)) for name, own in (stages or {}).items())
        return resolve(Program("tiny", given(values), blocks))

    return make


def leave_run(
    folder: Path, resolved: Resolved, evaluated: Iterable[object], step: int, finished: bool
) -> Path:
    """Leave what a run leaves, but for weights: lines of metrics, and a checkpoint of a step."""
    (folder / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)
    (folder / "resolved.json").write_text(resolved.model_dump_json())
    (folder / "lock.json").write_text("{}")
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in evaluated))
    if finished:
        (folder / "digests.json").write_text(json.dumps({"weights": {"step": step}}))
    return folder


def final_tensors(run: Path) -> dict[str, torch.Tensor]:
    """Weights, moments and averages of the newest checkpoint of a run."""
    step = max((run / "checkpoints").glob("step-*"))
    average = step / "average.safetensors"
    means = load_file(average) if average.exists() else {}
    return {
        **load_file(step / "weights.safetensors"),
        **load_file(step / "optimizer.safetensors"),
        **{f"average.{name}": mean for name, mean in means.items()},
    }


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


def stop_after(monkeypatch: pytest.MonkeyPatch, step: int, run: Callable[[], object]) -> None:
    """Run until it stops, as it is asked to in the middle of update ``step``."""
    real = TrainStep.__call__

    def stopping(self: TrainStep, inputs: Any, at: int, *others: Any) -> Any:
        result = real(self, inputs, at, *others)
        if at == step - 1:
            signal.raise_signal(signal.SIGTERM)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "__call__", stopping)
        with pytest.raises(StoppedError):
            run()


@contextmanager
def stopping(monkeypatch: pytest.MonkeyPatch, step: int, folder: str) -> Iterator[None]:
    """Stop a run in a folder of this name within the update after ``step``."""
    real = loop._step

    def stop(session: Any, *others: Any) -> Any:
        if folder in str(session.folder.path) and session.progress.step == step:
            session.ranks.stop.agree(15)
        return real(session, *others)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_step", stop)
        yield


def train_farm(said: Path, *options: str) -> None:
    """``bertc train`` in a process that has loaded torch; ``said`` gets what it says."""
    for stream, file in ((1, said.with_suffix(".out")), (2, said)):
        with file.open("w") as opened:
            os.dup2(opened.fileno(), stream)
    os.environ |= {"BERTC_CACHE": str(said.parent / "cache"), "OMP_NUM_THREADS": "1"}
    os.chdir(said.parent)
    sys.argv = ["bertc", "train", "farm.bertc", "--out", "run", *options]
    cli.main()


@pytest.fixture
def resumes(go: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hold that a run that is stopped after some steps, and resumed, is one that never was."""

    def hold(resolved: Any, *steps: int) -> None:
        go(resolved, "straight")
        for step in steps:
            stop_after(monkeypatch, step, lambda: go(resolved, "broken", resume=True))
        go(resolved, "broken", resume=True)
        same_run(tmp_path / "straight", tmp_path / "broken")

    return hold


@pytest.fixture
def barn(tmp_path: Path) -> Classify:
    """A task of two labels that a few words give away."""
    rows = [("hens cackle", "a"), ("ducks quack", "b"), ("geese hiss", "a"), ("old pond", "b")]
    text = "text\tlabel\n" + "".join(f"{words}\t{label}\n" for words, label in rows * 4)
    for part in ("train", "dev"):
        (tmp_path / f"{part}.tsv").write_text(text)
    train_file, dev = str(tmp_path / "train.tsv"), str(tmp_path / "dev.tsv")
    return Classify(train=train_file, dev=dev, labels=("a", "b"), examples=16)
