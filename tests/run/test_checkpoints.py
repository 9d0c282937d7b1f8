import os
import random
import resource
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from bertc.base.diagnostics import CannotWriteError, DataError
from bertc.base.storage import durable
from bertc.ir.base import Normal, Weight
from bertc.ir.learning.optimizer import Adam, moments_of
from bertc.run.records import checkpoints

TABLE = (
    Weight("a.weight", (3, 4), ("hidden", "hidden"), Normal(), "ffn", "matrix"),
    Weight("a.bias", (3,), ("hidden",), Normal(), "ffn", "bias"),
)
SHAPES = {weight.name: weight.shape for weight in TABLE}
FACTS = {"run": "f" * 64, "threads": 1}


Tensors = dict[str, torch.Tensor]


def tensors(step: int) -> tuple[Tensors, Tensors]:
    draw = torch.Generator().manual_seed(step)
    weights = {w.name: torch.randn(w.shape, generator=draw) for w in TABLE}
    moments = {f"{m}.{w.name}": torch.randn(w.shape, generator=draw) for m in "mv" for w in TABLE}
    return weights, moments


def content(weights: Tensors, moments: Tensors) -> dict[str, Tensors]:
    return {checkpoints.WEIGHTS: weights, checkpoints.OPTIMIZER: moments}


def save(parent: Path, step: int, keep: int = 3) -> Path:
    progress = {"step": step, "tokens": step * 10}
    return checkpoints.save(parent, step, content(*tensors(step)), progress, FACTS, keep)


def newest_step(parent: Path) -> int | None:
    found, _ = checkpoints.newest(parent, FACTS["run"])
    return found.step if found else None


def test_what_was_saved_is_read_back_to_the_bit(tmp_path):
    folder = save(tmp_path, 1234)
    assert folder.name == "step-00001234"
    found, damaged = checkpoints.newest(tmp_path, FACTS["run"])
    assert found is not None
    assert (found.step, dict(found.progress)) == (1234, {"step": 1234, "tokens": 12340})
    assert found.facts == FACTS
    assert damaged == []
    weights, moments = tensors(1234)
    loaded = checkpoints.load(folder / "weights.safetensors", SHAPES)
    assert all(torch.equal(loaded[name], weights[name]) for name in weights)
    shapes = {name: weight.shape for name, weight in moments_of(Adam(), TABLE).items()}
    loaded = checkpoints.load(folder / "optimizer.safetensors", shapes)
    assert all(torch.equal(loaded[name], moments[name]) for name in moments)


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
    assert found is not None
    assert found.step == 1
    assert "another run" in damaged[0]


class Cut(BaseException):
    """The power is cut."""


SYSTEM_CALLS = ("mkdir", "rename", "replace", "unlink", "rmdir", "fsync")


def cut_at(
    monkeypatch: pytest.MonkeyPatch, limit: int, act: Callable[[], object]
) -> tuple[bool, list[str]]:
    """Let so many calls of the file system happen and none after; whether it ended, and them."""
    done: list[str] = []

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if len(done) == limit:
                raise Cut  # so do all that follow: nothing is cleaned up
            done.append(name)
            return real(*arguments, **options)

        return call

    with monkeypatch.context() as patched:
        for name in SYSTEM_CALLS:
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
    with pytest.raises(FileExistsError):
        durable.make_folder(tmp_path / "file")


def test_a_checkpoint_that_was_put_aside_is_found_until_another_is_there(tmp_path):
    aside = save(tmp_path, 3, keep=1).rename(tmp_path / "step-00000003.replaced")
    found, damaged = checkpoints.newest(tmp_path, FACTS["run"])
    assert found is not None
    assert (found.folder, found.step, damaged) == (aside, 3, [])
    assert checkpoints.how_to_resume(tmp_path).endswith("step 3, the last checkpoint")
    folder = save(tmp_path, 3, keep=2)
    assert list(tmp_path.iterdir()) == [folder]


def damage(folder: Path, draw: random.Random) -> str:
    """Harm a checkpoint in one of many ways; returns what was done."""
    victim = draw.choice(sorted(folder.iterdir()))
    raw, elsewhere = victim.read_bytes(), folder.parent / "elsewhere"
    place = draw.randrange(len(raw))
    what = draw.choice(["flip", "flip", "cut", "grow", "lose", "add", "swap", "link", "blank"])
    match what:
        case "flip":
            changed = raw[place] ^ (1 << draw.randrange(8))
            victim.write_bytes(raw[:place] + bytes([changed]) + raw[place + 1 :])
        case "cut":
            victim.write_bytes(raw[:place])
        case "grow":
            victim.write_bytes(raw + draw.randbytes(draw.randint(1, 9)))
        case "lose":
            victim.unlink()
        case "add":
            (folder / "notes.txt").write_text("x")
        case "swap":
            shutil.copy(folder.parent / "step-00000001" / victim.name, victim)
        case "link":
            victim.rename(elsewhere)
            victim.symlink_to(elsewhere)
        case _:
            victim.write_bytes(b"\0" * len(raw))
    return f"{what} {victim.name} {place}"


def test_two_hundred_damaged_checkpoints_are_all_detected(tmp_path):
    good, copy = tmp_path / "good", tmp_path / "copy"
    for step in (1, 2):
        save(good, step)
    shutil.copytree(good / "step-00000002", copy)
    draw = random.Random(3)
    for trial in range(200):
        what = damage(good / "step-00000002", draw)
        found, damaged = checkpoints.newest(good, FACTS["run"])
        assert found is not None
        assert found.step == 1, (trial, what)
        (reason,) = damaged
        assert "step-00000002: " in reason, what
        assert "\n" not in reason
        durable.remove(good / "step-00000002")
        shutil.copytree(copy, good / "step-00000002")


def test_renamed_checkpoints_and_hostile_manifests_are_damage(tmp_path):
    folder = save(tmp_path, 1).rename(tmp_path / "step-00000009")
    with pytest.raises(DataError, match="is of step 1"):
        checkpoints.verify(folder)
    for text in ("[" * 100_000, "{}", '{"content": 3}', "", "\xff", " " * 2**21):
        (folder / "manifest.json").write_text(text)
        assert newest_step(tmp_path) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("a.bias"), "a.bias is missing"),
        (lambda t: t.update(b=torch.zeros(1)), "b is unknown"),
        (lambda t: t.update({"a.bias": torch.zeros(4)}), r"a.bias is F32 \[4\], not F32 \[3\]"),
        (lambda t: t.update({"a.bias": torch.zeros(3).half()}), "a.bias is F16"),
    ],
)
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
        with pytest.raises(CannotWriteError) as caught:
            save(tmp_path, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "step-00000002: file too large" in caught.value.message.lower()
    assert "bytes needed" in caught.value.message
    assert "free" in caught.value.message
    monkeypatch.setattr(durable, "free_bytes", lambda path: 1000)
    with pytest.raises(CannotWriteError, match=r"disk is full .*needed, 1,000 free"):
        save(tmp_path, 2)
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
