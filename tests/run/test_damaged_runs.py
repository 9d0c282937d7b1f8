"""Files of a run that are damaged or another run's: each is refused by name."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bertc.base.diagnostics import DataError, MissingInputError, ResumeRefusedError, UsageError
from bertc.cost.planning.plan import Plan
from bertc.hub.folders import checkpoint_folders
from bertc.ir.data import Files, Share
from bertc.ir.program.resolved import Resolved
from bertc.lab.report.report import report_page
from bertc.lab.results.compare import results
from bertc.lab.results.listing import list_runs
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.models.runs import export_run, import_run
from bertc.run.records import checkpoints, metrics
from bertc.run.records.folder import RunFolder
from bertc.run.records.lock import Lock
from bertc.run.records.metrics import append_line
from bertc.run.train.loop import train
from bertc.use.trained import load
from tests.run.conftest import same_run

PLAN = Plan("cpu", "fp32", (8,), (False,), False, ("fp32: asked for",))
LOCK = Lock(resolved="r", data="d", init="", threads=2, plan=PLAN, machine={}, versions={})
LINE = {"kind": "eval", "step": 4, "stage": "main", "loss": 2.0, "losses": {"mlm": 2.0}}


def test_a_lock_is_read_as_it_was_written_or_damaged(tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    LOCK.write(path)
    assert Lock.read(path) == LOCK
    other_plan = {"plan": {**LOCK.content()["plan"], "microbatches": 3}}
    wrong = ({"plan": {}}, {"threads": -1}, {"threads": "2"}, {"data": 3}, {"versions": [1]})
    for change in (*wrong, other_plan):
        path.write_text(json.dumps({**LOCK.content(), **change}))
        with pytest.raises(DataError, match="lock.json is damaged: ") as caught:
            Lock.read(path)
        assert "remove" in caught.value.help
    for content in ("", "[1]", "{}", "[" * 100_000, "\udce9"):
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
        with pytest.raises(DataError, match=r"lock\.json"):
            Lock.read(path)


def test_no_line_is_appended_to_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "spent.jsonl")
    with pytest.raises(MissingInputError, match="no plain file"):
        append_line(tmp_path / "spent.jsonl", {})


@pytest.mark.parametrize(
    "line",
    [
        "{", "[1]", "NaN", "{}", "9" * 5000, "[" * 100_000, "\udce9",
        *(
            json.dumps({**LINE, **change})
            for change in (
                {"step": "4"}, {"step": -1}, {"loss": float("nan")}, {"losses": {"mlm": 10**400}},
                {"scores": {"a": {"dev": {"f1": "x"}}}}, {"best": {"step": 1}}, {"kind": "x"},
            )
        ),
    ],
)  # fmt: skip
def test_a_damaged_line_of_metrics_is_named(tmp_path: Path, line: str) -> None:
    path, good = tmp_path / "metrics.jsonl", json.dumps(LINE).encode() + b"\n"
    path.write_bytes(good + line.encode("utf-8", "surrogateescape") + b"\n" + good)
    with pytest.raises(DataError, match=r"metrics\.jsonl:2 is damaged"):
        metrics.read(path)
    assert metrics.read(path, len(good)) == [LINE]  # what comes later is cut off by a resume


def test_only_folders_named_as_checkpoints_are_steps(tmp_path: Path) -> None:
    parent = tmp_path / "checkpoints"
    for name in ("step-abc", "step-", "step-old", "step-00000005.bak", "step-00000004", "step-7"):
        (parent / name).mkdir(parents=True)
    assert RunFolder(tmp_path).saved_step == 4
    assert checkpoint_folders(parent) == [(4, parent / "step-00000004")]
    assert checkpoint_folders(tmp_path / "none") == []


def test_a_program_that_is_a_folder_is_no_run(tmp_path: Path, tiny) -> None:
    (tmp_path / "resolved.json").mkdir()
    with pytest.raises(MissingInputError, match="it is a folder"):
        RunFolder(tmp_path).read_resolved()


def test_a_refused_end_leaves_the_digests_as_they_were(tmp_path: Path, tiny, cache: Path) -> None:
    text = tmp_path / "farm.txt"
    text.write_text("Hens cackle in the old barn.\n\nDucks quack on the pond.\n\n" * 20)
    resolved, run = tiny(steps=3, data=(Share(corpus=Files(path=str(text))),)), tmp_path / "run"
    train(resolved, run, cache=cache, quiet=True)
    written = (run / "digests.json").read_bytes()
    lock = (run / "lock.json").rename(tmp_path / "lock.json")
    text.write_text("Geese hiss.\n\n" * 40)
    with pytest.raises(ResumeRefusedError, match="the text: "):
        train(resolved, run, cache=cache, quiet=True, resume=True)
    assert (run / "digests.json").read_bytes() == written
    text.write_text("Hens cackle in the old barn.\n\nDucks quack on the pond.\n\n" * 20)
    lock.rename(run / "lock.json")
    (run / "model" / "mine.txt").write_text("a note")
    with pytest.raises(UsageError, match=r"holds mine\.txt"):
        train(resolved, run, cache=cache, quiet=True, resume=True)
    assert (run / "digests.json").read_bytes() == written
    (run / "digests.json").unlink()
    with pytest.raises(UsageError, match=r"holds mine\.txt"):
        train(resolved, run, cache=cache, quiet=True, resume=True)
    assert not (run / "digests.json").exists()


@pytest.mark.parametrize("change", [{"stage": "other"}, {"scores": {"mrpc": {"dev": {}}}}])
def test_results_of_another_program_are_refused(tmp_path: Path, tiny, change: Any) -> None:
    folder = RunFolder(tmp_path)
    folder.start(tiny(), "")
    folder.lock.write_text("{}")
    folder.metrics.write_text(json.dumps({**LINE, **change}) + "\n")
    with pytest.raises(DataError, match="is not of this run"):
        results([tmp_path])


RUN = Path("run")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, corpus_file: Path) -> Path:
    """Two folders with a text of the same name and other documents."""
    place, documents = tmp_path_factory.mktemp("pair"), corpus_file.read_text().split("\n\n")
    for name, part in (("a", documents[:40]), ("b", documents[20:])):
        (place / name).mkdir()
        (place / name / "farm.txt").write_text("\n\n".join(part))
    return place


@pytest.fixture
def program(
    place: Path, tiny: Callable[..., Resolved], cache: Path, tmp_path: Path, monkeypatch
) -> Resolved:
    """A program that was trained in both folders; the working folder is a copy of the first."""
    resolved = tiny(steps=8, data=(Share(corpus=Files(path="farm.txt", sentences="lines")),))
    for name in ("b", "a"):
        monkeypatch.chdir(place / name)
        if not RUN.exists():
            train(resolved, RUN, cache=cache, quiet=True)
    shutil.copytree(place / "a", tmp_path / "a")
    monkeypatch.chdir(tmp_path / "a")
    return resolved


def swap(place: Path, part: str) -> None:
    theirs, ours = place / "b" / RUN / part, RUN / part
    if ours.is_dir():
        shutil.rmtree(ours)
        shutil.copytree(theirs, ours)
    else:
        shutil.copy(theirs, ours)


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ("checkpoints", "step-00000008 and lock.json are of different runs: the text"),
        ("lock.json", "and lock.json are of different runs: the text"),
        ("metrics.jsonl", "metrics.jsonl is not of this run"),
        ("model", "is not what this run wrote"),
        ("model/model.safetensors", "model.safetensors is not what this run wrote"),
        ("model/tokenizer.json", "model/tokenizer.json is not what this run wrote"),
        ("tokenizer", "tokenizer/tokenizer.json is not what this run wrote"),
        ("tokenizer/vocab.txt", "tokenizer/vocab.txt is not what this run wrote"),
        ("digests.json", "is not what this run wrote"),
    ],
)
def test_a_part_of_another_run_is_noticed(place, program, cache, part, said, capsys):
    swap(place, part)
    with pytest.raises(ResumeRefusedError, match=said) as caught:
        train(program, RUN, resume=True, cache=cache)
    assert "restore" in caught.value.help
    assert "resuming" not in capsys.readouterr().err
    for way in (
        lambda: load(RUN),
        lambda: evaluate_run(RUN, cache=cache, quiet=True),
        lambda: export_run(RUN, Path("out")),
        lambda: report_page([RUN]),
    ):
        with pytest.raises(DataError, match=said):
            way()
    seen_in_lists = part in ("checkpoints", "lock.json", "metrics.jsonl")
    assert bool(list_runs([Path(".")]).damaged) == seen_in_lists


def test_remedies_are_remedies(place, program, cache):
    def resumes() -> None:
        train(program, RUN, resume=True, cache=cache, quiet=True)
        load(RUN)

    swap(place, "metrics.jsonl")
    (RUN / "metrics.jsonl").unlink()
    resumes()
    swap(place, "tokenizer")
    (RUN / "digests.json").unlink()
    resumes()
    (RUN / "model" / "config.json").write_text("{}")  # as people complete it
    load(RUN)


def test_a_run_written_without_digests_goes_on(program, cache):
    """As older versions wrote it; its text alone is compared, and its lock may be removed."""
    (RUN / "digests.json").unlink()
    for manifest in RUN.glob("checkpoints/*/manifest.json"):
        _without_digests(manifest)
    shutil.copytree(RUN, "straight")
    (RUN / "lock.json").unlink()
    train(program, RUN, resume=True, cache=cache, quiet=True)
    same_run(RUN, Path("straight"))


def test_a_removed_lock_is_written_as_the_checkpoint_says(place, program, cache):
    before = RunFolder(RUN).read_lock()
    (RUN / "lock.json").unlink()
    train(program, RUN, resume=True, cache=cache, quiet=True)
    after = RunFolder(RUN).read_lock()
    assert before is not None
    assert after is not None
    assert before.data == after.data
    swap(place, "checkpoints")
    for name in ("lock.json", "metrics.jsonl", "digests.json"):
        (RUN / name).unlink()
    with pytest.raises(ResumeRefusedError, match="the text: "):
        train(program, RUN, resume=True, cache=cache, quiet=True)


def test_an_imported_model_keeps_its_weights(program):
    import_run(RUN / "model", Path("imported"))
    load(Path("imported"))
    weights = Path("imported/model/model.safetensors")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(DataError, match=r"model\.safetensors is not what this run wrote"):
        load(Path("imported"))


def _without_digests(manifest: Path) -> None:
    content = json.loads(manifest.read_text())["content"]
    facts = {n: v for n, v in content["facts"].items() if n not in ("origin", "metrics")}
    manifest.write_bytes(checkpoints._manifest(content["step"], content["files"], facts))
