"""Files of a run, whole or damaged or another run's: each is refused by name."""

import json
import os
import random
import resource
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch

from bertc.base.diagnostics import (
    CannotWriteError,
    DataError,
    MissingInputError,
    ResumeRefusedError,
    UsageError,
)
from bertc.base.storage import durable
from bertc.cost.planning.plan import Plan
from bertc.hub.folders import checkpoint_folders
from bertc.ir.base import Normal, Weight
from bertc.ir.learning.optimizer import Adam, moments_of
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
from tests.run.conftest import same_run, same_tensors

TABLE = (
    Weight("a.weight", (3, 4), ("hidden", "hidden"), Normal(), "ffn", "matrix"),
    Weight("a.bias", (3,), ("hidden",), Normal(), "ffn", "bias"),
)
SHAPES = {weight.name: weight.shape for weight in TABLE}
FACTS = {"run": "f" * 64, "threads": 1}


Tensors = dict[str, torch.Tensor]


def tensors(step):
    draw = torch.Generator().manual_seed(step)
    weights = {w.name: torch.randn(w.shape, generator=draw) for w in TABLE}
    moments = {f"{m}.{w.name}": torch.randn(w.shape, generator=draw) for m in "mv" for w in TABLE}
    return weights, moments


def content(weights, moments):
    return {checkpoints.WEIGHTS: weights, checkpoints.OPTIMIZER: moments}


def save(parent, step, keep=3):
    progress = {"step": step, "tokens": step * 10}
    return checkpoints.save(parent, step, content(*tensors(step)), progress, FACTS, keep)


def newest_step(parent):
    found, _ = checkpoints.newest(parent, FACTS["run"])
    return found.step if found else None


def test_what_was_saved_is_read_back_to_the_bit(tmp_path):
    folder = save(tmp_path, 1234)
    assert folder.name == "step-00001234"
    found, damaged = checkpoints.newest(tmp_path, FACTS["run"])
    assert (found.step, dict(found.progress)) == (1234, {"step": 1234, "tokens": 12340})
    assert (found.facts, damaged) == (FACTS, [])
    weights, moments = tensors(1234)
    shapes = {name: weight.shape for name, weight in moments_of(Adam(), TABLE).items()}
    same_tensors(checkpoints.load(folder / "weights.safetensors", SHAPES), weights)
    same_tensors(checkpoints.load(folder / "optimizer.safetensors", shapes), moments)


def test_a_run_that_was_killed_is_told_from_where_it_goes_on(tmp_path):
    assert checkpoints.how_to_resume(tmp_path / "none").startswith("nothing was saved yet")
    for step in (400, 800, 1200):
        save(tmp_path, step, keep=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000800", "step-00001200"]
    said = checkpoints.how_to_resume(tmp_path)
    assert said == "--resume goes on from step 1,200, the last checkpoint"


def test_one_of_another_run_is_passed_over(tmp_path):
    save(tmp_path, 1)
    checkpoints.save(tmp_path, 2, content(*tensors(2)), {}, {"run": "other"}, 3)
    found, damaged = checkpoints.newest(tmp_path, FACTS["run"])
    assert found.step == 1
    assert "another run" in damaged[0]


class Cut(BaseException):
    """The power is cut."""


def cut_at(monkeypatch, limit, act):
    """Let so many calls of the file system happen and none after; whether it ended, and them."""
    done: list[str] = []

    def counted(name, real):
        def call(*arguments, **options):
            if len(done) == limit:
                raise Cut  # so do all that follow: nothing is cleaned up
            done.append(name)
            return real(*arguments, **options)

        return call

    with monkeypatch.context() as patched:
        for name in ("mkdir", "rename", "replace", "unlink", "rmdir", "fsync"):
            patched.setattr(os, name, counted(name, getattr(os, name)))
        patched.setattr(checkpoints, "save_file", counted("save_file", checkpoints.save_file))
        try:
            act()
        except Cut:
            return False, done
    return True, done


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("step", [1, 2], ids=["the same step", "the next step"])
def test_a_save_cut_at_any_call_leaves_a_good_checkpoint(tmp_path, monkeypatch, step, keep):
    ended, limit = False, 0
    while not ended:
        parent = tmp_path / str(limit)
        save(parent, 1, keep)
        ended, done = cut_at(monkeypatch, limit, partial(save, parent, step, keep))
        limit += 1
        assert newest_step(parent) in ((step,) if ended else (1, step)), done
        checkpoints.remove_unfinished(parent)
        assert newest_step(parent) in (1, step), done
        save(parent, step, keep)
        left = ["step-00000001", "step-00000002"][-keep:] if step == 2 else ["step-00000001"]
        assert sorted(path.name for path in parent.iterdir()) == left
    # The new name is on the disk before anything of the old one goes.
    removed = done.index("unlink") if "unlink" in done else len(done)
    renamed = [at for at in range(removed) if done[at] == "rename"]
    assert all(done[at + 1] == "fsync" for at in renamed[: 1 + (step == 1)]), done


def test_folders_that_are_made_are_named_on_the_disk(tmp_path, monkeypatch):
    synced: list[Path] = []
    monkeypatch.setattr(durable, "sync", synced.append)
    durable.make_folder(tmp_path / "a" / "b")
    durable.make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path / "a", tmp_path]
    monkeypatch.chdir(tmp_path)
    durable.make_folder(Path("a/c"))
    assert synced[2:] == [tmp_path / "a"]
    (tmp_path / "file").write_text("")
    pytest.raises(FileExistsError, durable.make_folder, tmp_path / "file")


def test_a_checkpoint_that_was_put_aside_is_found_until_another_is_there(tmp_path):
    aside = save(tmp_path, 3, keep=1).rename(tmp_path / "step-00000003.replaced")
    found, damaged = checkpoints.newest(tmp_path, FACTS["run"])
    assert (found.folder, found.step, damaged) == (aside, 3, [])
    assert checkpoints.how_to_resume(tmp_path).endswith("step 3, the last checkpoint")
    folder = save(tmp_path, 3, keep=2)
    assert list(tmp_path.iterdir()) == [folder]


def damage(folder, draw):
    """Harm a checkpoint in one of many ways; returns what was done."""
    victim = draw.choice(sorted(folder.iterdir()))
    raw, elsewhere = victim.read_bytes(), folder.parent / "elsewhere"
    place = draw.randrange(len(raw))
    what = draw.choice(["flip", "flip", "cut", "grow", "lose", "add", "swap", "link", "blank"])
    changed = raw[place] ^ (1 << draw.randrange(8))
    contents = {
        "flip": raw[:place] + bytes([changed]) + raw[place + 1 :], "cut": raw[:place],
        "grow": raw + draw.randbytes(draw.randint(1, 9)), "blank": b"\0" * len(raw),
    }  # fmt: skip
    match what:
        case _ if what in contents:
            victim.write_bytes(contents[what])
        case "lose":
            victim.unlink()
        case "add":
            (folder / "notes.txt").write_text("x")
        case "swap":
            shutil.copy(folder.parent / "step-00000001" / victim.name, victim)
        case "link":
            victim.rename(elsewhere)
            victim.symlink_to(elsewhere)
    return f"{what} {victim.name} {place}"


def test_two_hundred_damaged_checkpoints_are_all_detected(tmp_path):
    good, copy = tmp_path / "good", tmp_path / "copy"
    for step in (1, 2):
        save(good, step)
    victim, draw = good / "step-00000002", random.Random(3)
    shutil.copytree(victim, copy)
    for trial in range(200):
        what = damage(victim, draw)
        found, (reason,) = checkpoints.newest(good, FACTS["run"])
        assert found.step == 1, (trial, what)
        assert "step-00000002: " in reason, what
        assert "\n" not in reason
        durable.remove(victim)
        shutil.copytree(copy, victim)


def test_renamed_checkpoints_and_hostile_manifests_are_damage(tmp_path):
    folder = save(tmp_path, 1).rename(tmp_path / "step-00000009")
    pytest.raises(DataError, checkpoints.verify, folder).match("is of step 1")
    for text in ("[" * 100_000, "{}", '{"content": 3}', "", "\xff", " " * 2**21):
        (folder / "manifest.json").write_text(text)
        assert newest_step(tmp_path) is None


@pytest.mark.parametrize(("change", "message"), [
    (lambda t: t.pop("a.bias"), r"a.bias is None, not \(\(3,\), torch.float32\)"),
    (lambda t: t.update(b=torch.zeros(1)), r"b is .*, not None"),
    (lambda t: t.update({"a.bias": torch.zeros(4)}), r"a.bias is \(\(4,\), .*, not \(\(3,\)"),
    (lambda t: t.update({"a.bias": torch.zeros(3).half()}), "a.bias is .*float16"),
])  # fmt: skip
def test_tensors_must_be_those_of_the_weight_table(tmp_path, change, message):
    weights, moments = tensors(1)
    change(weights)
    folder = checkpoints.save(tmp_path, 1, content(weights, moments), {}, FACTS, 1)
    with pytest.raises(DataError, match=message):
        checkpoints.load(folder / "weights.safetensors", SHAPES)
    (tmp_path / "weights.safetensors").write_bytes(b"\x05")
    with pytest.raises(DataError, match="cannot be read"):
        checkpoints.load(tmp_path / "weights.safetensors", SHAPES)


@pytest.mark.parametrize("limit_bytes", [10, 200, 400])
def test_a_file_that_cannot_grow_names_path_need_and_room(tmp_path, monkeypatch, limit_bytes):
    save(tmp_path, 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, before[1]))
    try:
        caught = pytest.raises(CannotWriteError, save, tmp_path, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    message = caught.value.message.lower()
    for part in ("step-00000002: file too large", "bytes needed", "free"):
        assert part in message
    monkeypatch.setattr(durable, "free_bytes", lambda path: 1000)
    pytest.raises(CannotWriteError, save, tmp_path, 2).match(r"disk is full .*needed, 1,000 free")
    assert newest_step(tmp_path) == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000001"]


def test_what_is_no_checkpoint_makes_room_for_one(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "step-00000001").write_text("a file")
    (tmp_path / "step-00000002").symlink_to("nowhere")
    (tmp_path / "step-00000003").symlink_to("kept")
    (tmp_path / ".tmp-old-step-00000003").write_text("a file")
    save(tmp_path, 4, keep=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "step-00000004"]


PLAN = Plan("cpu", "fp32", (8,), (False,), False, ("fp32: asked for",))
LOCK = Lock(resolved="r", data="d", init="", threads=2, plan=PLAN, machine={}, versions={})
LINE = {"kind": "eval", "step": 4, "stage": "main", "loss": 2.0, "losses": {"mlm": 2.0}}


def test_a_lock_is_read_as_it_was_written_or_damaged(tmp_path):
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
        pytest.raises(DataError, Lock.read, path).match(r"lock\.json")


def test_what_is_named_as_a_file_of_a_run_and_is_none(tmp_path):
    os.mkfifo(tmp_path / "spent.jsonl")
    with pytest.raises(MissingInputError, match="no plain file"):
        append_line(tmp_path / "spent.jsonl", {})
    parent = tmp_path / "checkpoints"
    for name in ("step-abc", "step-", "step-old", "step-00000005.bak", "step-00000004", "step-7"):
        (parent / name).mkdir(parents=True)
    assert RunFolder(tmp_path).saved_step == 4
    assert checkpoint_folders(parent) == [(4, parent / "step-00000004")]
    assert checkpoint_folders(tmp_path / "none") == []
    (tmp_path / "resolved.json").mkdir()
    pytest.raises(MissingInputError, RunFolder(tmp_path).read_resolved).match("it is a folder")


WRONG = (
    {"step": "4"}, {"step": -1}, {"loss": float("nan")}, {"losses": {"mlm": 10**400}},
    {"scores": {"a": {"dev": {"f1": "x"}}}}, {"best": {"step": 1}}, {"kind": "x"},
)  # fmt: skip
BROKEN = ("{", "[1]", "NaN", "{}", "9" * 5000, "[" * 100_000, "\udce9")


@pytest.mark.parametrize("line", [*BROKEN, *(json.dumps({**LINE, **change}) for change in WRONG)])
def test_a_damaged_line_of_metrics_is_named(tmp_path, line):
    path, good = tmp_path / "metrics.jsonl", json.dumps(LINE).encode() + b"\n"
    path.write_bytes(good + line.encode("utf-8", "surrogateescape") + b"\n" + good)
    pytest.raises(DataError, metrics.read, path).match(r"metrics\.jsonl:2 is damaged")
    assert metrics.read(path, len(good)) == [LINE]  # what comes later is cut off by a resume


def test_a_refused_end_leaves_the_digests_as_they_were(tmp_path, tiny, go):
    text, first = tmp_path / "farm.txt", "Hens cackle in the barn.\n\nDucks on the pond.\n\n" * 20
    text.write_text(first)
    resolved, run = tiny(f"steps=3 data=files('{text}')"), tmp_path / "run"
    go(resolved)
    written = (run / "digests.json").read_bytes()
    lock = (run / "lock.json").rename(tmp_path / "lock.json")
    text.write_text("Geese hiss.\n\n" * 40)
    pytest.raises(ResumeRefusedError, go, resolved, resume=True).match("the text: ")
    assert (run / "digests.json").read_bytes() == written
    text.write_text(first)
    lock.rename(run / "lock.json")
    (run / "model" / "mine.txt").write_text("a note")
    pytest.raises(UsageError, go, resolved, resume=True).match(r"holds mine\.txt")
    assert (run / "digests.json").read_bytes() == written
    (run / "digests.json").unlink()
    pytest.raises(UsageError, go, resolved, resume=True).match(r"holds mine\.txt")
    assert not (run / "digests.json").exists()


@pytest.mark.parametrize("change", [{"stage": "other"}, {"scores": {"mrpc": {"dev": {}}}}])
def test_results_of_another_program_are_refused(tmp_path, tiny, change):
    folder = RunFolder(tmp_path)
    folder.start(tiny(), "")
    folder.lock.write_text("{}")
    folder.metrics.write_text(json.dumps({**LINE, **change}) + "\n")
    pytest.raises(DataError, results, [tmp_path]).match("is not of this run")


RUN = Path("run")


@pytest.fixture(scope="module")
def place(tmp_path_factory, corpus_file):
    """Two folders with a text of the same name and other documents."""
    place, documents = tmp_path_factory.mktemp("pair"), corpus_file.read_text().split("\n\n")
    for name, part in (("a", documents[:40]), ("b", documents[20:])):
        (place / name).mkdir()
        (place / name / "farm.txt").write_text("\n\n".join(part))
    return place


@pytest.fixture
def program(place, tiny, cache, tmp_path, monkeypatch):
    """A program that was trained in both folders; the working folder is a copy of the first."""
    resolved = tiny("steps=8 data=files('farm.txt', sentences=lines)")
    for name in ("b", "a"):
        monkeypatch.chdir(place / name)
        if not RUN.exists():
            train(resolved, RUN, cache=cache, quiet=True)
    shutil.copytree(place / "a", tmp_path / "a")
    monkeypatch.chdir(tmp_path / "a")
    return resolved


def swap(place, part):
    durable.remove(RUN / part)
    copy = shutil.copytree if (place / "b" / RUN / part).is_dir() else shutil.copy
    copy(place / "b" / RUN / part, RUN / part)


@pytest.mark.parametrize(("part", "said"), [
    ("checkpoints", "step-00000008 and lock.json are of different runs: the text"),
    ("lock.json", "and lock.json are of different runs: the text"),
    ("metrics.jsonl", "metrics.jsonl is not of this run"),
    ("tokenizer", "tokenizer/tokenizer.json is not what this run wrote"),
    *((part, "is not what this run wrote") for part in ("model", "digests.json")),
    *(
        (part, f"{part} is not what this run wrote")
        for part in ("model/model.safetensors", "model/tokenizer.json", "tokenizer/vocab.txt")
    ),
])  # fmt: skip
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
        pytest.raises(DataError, way).match(said)
    seen_in_lists = part in ("checkpoints", "lock.json", "metrics.jsonl")
    assert bool(list_runs([Path(".")]).damaged) == seen_in_lists


def test_remedies_are_remedies(place, program, cache):
    def resumes():
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
        content = json.loads(manifest.read_text())["content"]
        facts = {n: v for n, v in content["facts"].items() if n not in ("origin", "metrics")}
        manifest.write_bytes(checkpoints._manifest(content["step"], content["files"], facts))
    shutil.copytree(RUN, "straight")
    (RUN / "lock.json").unlink()
    train(program, RUN, resume=True, cache=cache, quiet=True)
    same_run(RUN, Path("straight"))


def test_a_removed_lock_is_written_as_the_checkpoint_says(place, program, cache):
    before = RunFolder(RUN).read_lock().data
    (RUN / "lock.json").unlink()
    train(program, RUN, resume=True, cache=cache, quiet=True)
    assert RunFolder(RUN).read_lock().data == before
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
