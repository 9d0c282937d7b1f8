"""Parts of a run folder that are another run's of the same program: every command notices."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bertc.base.diagnostics import DataError, ResumeRefusedError
from bertc.ir.data import Files, Share
from bertc.ir.program.resolved import Resolved
from bertc.lab.report.report import report_page
from bertc.lab.results.listing import list_runs
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.models.runs import export_run, import_run
from bertc.run.records import checkpoints
from bertc.run.records.folder import RunFolder
from bertc.run.train.loop import train
from bertc.use.trained import load
from tests.run.conftest import same_run

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
