"""A run that is sent to an address, and goes on from there on another machine."""

import shutil
import threading
import time
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from bertc.base.diagnostics import BertcError, CannotWriteError, DataError
from bertc.base.storage import place as places
from bertc.base.storage.place import FolderAt
from bertc.cli import training
from bertc.machine.display import Display
from bertc.machine.signals import Stop
from bertc.run.records import mirror
from bertc.run.records.fetching import fetch
from bertc.run.records.folder import RunFolder
from tests.data.test_prepare import Notes
from tests.run.conftest import same_run, stop_after


class Store(MemoryFileSystem):
    """A store that may refuse what is written."""

    protocol = "afar"
    is_down = False

    def put_file(self, *arguments, **options):
        if self.is_down:
            raise TimeoutError("no answer")
        super().put_file(*arguments, **options)


@pytest.fixture
def at(tmp_path, monkeypatch):
    fsspec.register_implementation("afar", Store, clobber=True)
    monkeypatch.setattr(places, "FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(Store, "is_down", False)
    monkeypatch.setattr(mirror, "BEAT_SECONDS", 0.01)
    return f"afar://{tmp_path.name}/run"


def content(folder):
    place = FolderAt(str(folder))
    names = [name for name in place.sizes(below=True) if name[0] != "."]
    return {name: place.read(name, 2**30, lambda raw: True) for name in names}


@pytest.mark.parametrize("kind", ["store", "folder"])
def test_a_run_goes_on_from_its_mirror_as_if_never_stopped(
    kind, at, tiny, go, tmp_path, monkeypatch
):
    at = at if kind == "store" else str(tmp_path / "mirror")
    program = tiny(keep=1, save_every=2)  # of more, one that waits is passed over
    go(program, "straight")
    stop_after(monkeypatch, 7, lambda: go(program, "run", mirror=at))
    assert content(at) == content(tmp_path / "run"), "all but the lock"
    notes = Notes()
    monkeypatch.chdir(tmp_path)
    out = Path("runs") / at.split("/")[-1]
    assert fetch(f"{at}/", None, notes) == out
    assert notes.notes[-1] == f"{at}/ is {out} here"
    out.rename("other")
    go(program, "other", resume=True, mirror=at)
    same_run(tmp_path / "straight", tmp_path / "other")
    assert content(at) == content(tmp_path / "other")
    assert {n.split("/")[1] for n in content(at) if "step-" in n} == {"step-00000012"}
    # Back on the first machine, whose folder is older; and once more, where it is as new.
    fetch(at, tmp_path / "run", notes)
    fetch(at, tmp_path / "run", notes)
    assert RunFolder(tmp_path / "run").saved_step == 12
    assert (tmp_path / "run.step-00000007").is_dir()
    assert "going on from" in notes.notes[-1]
    go(program, "run", resume=True)
    assert RunFolder(tmp_path / "run").read_attempts()[-1].mirror == at, "it stays the same"


def test_what_is_no_mirror_of_this_run_is_refused(at, tiny, go, tmp_path):
    program = tiny(steps=4)
    go(program, "run", mirror=at)
    go(program, "same")
    assert mirror.address_for(tmp_path / "same", None, True) == ""
    FolderAt(f"{at}-others").write("notes.txt", b"mine")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "notes.txt").write_text("mine")
    for work, message in [
        (lambda: go(program, "new", mirror=at), "holds a run already"),
        (lambda: go(program, "new", mirror=f"{at}-others"), r"holds no run \(notes.txt\)"),
        (lambda: go(program, "new", mirror=str(tmp_path / "new")), "is the run itself"),
        (lambda: go(program, "new", mirror="ftp://me:secret@host/run"), "no keys, passwords"),
        (lambda: go(tiny(steps=4, seed=2), "new", mirror=at, resume=True), "another run"),
        (lambda: go(program, "same", mirror=at, resume=True), "another run"),
        (lambda: fetch(at, tmp_path / "same", Display()), "another run"),
        (lambda: fetch(at, tmp_path / "taken", Display()), "is not empty"),
        (lambda: training._fetched(at, None, False, None), "is no spec"),
        (lambda: training._fetched(f"{at}-no", None, True, None), "there is no run at"),
    ]:
        with pytest.raises(BertcError, match=message) as caught:
            work()
        assert caught.value.help
        assert "secret" not in caught.value.message


def test_a_damaged_checkpoint_there_is_passed_over(at, tiny, go, tmp_path):
    go(tiny(steps=8, keep=2), "run", mirror=at)
    place, notes = FolderAt(at), Notes()
    place.write("checkpoints/step-00000008/weights.safetensors", b"other")
    fetch(at, tmp_path / "other", notes)
    assert RunFolder(tmp_path / "other").saved_step == 4
    assert "passed over" in notes.notes[-3]
    place.write("checkpoints/step-00000004/manifest.json", b"{}")
    with pytest.raises(DataError, match="every checkpoint at .* is damaged") as caught:
        fetch(at, tmp_path / "third", notes)
    assert "begin again" in caught.value.help
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".third.tmp")]


def test_a_store_that_is_down_holds_up_no_training(at, tiny, go, tmp_path, monkeypatch):
    program, running = tiny(steps=4), threading.active_count()
    monkeypatch.setattr(Store, "is_down", True)
    with pytest.raises(CannotWriteError, match=r"trained to its end, but .* no answer") as caught:
        go(program, "run", mirror=at)
    assert "step-00000004" in caught.value.message
    assert RunFolder(tmp_path / "run").is_finished(program)
    monkeypatch.setattr(Store, "is_down", False)
    go(program, "run", resume=True)
    assert content(at) == content(tmp_path / "run")
    end = time.monotonic() + 5
    while threading.active_count() > running and time.monotonic() < end:
        time.sleep(0.01)
    assert threading.active_count() == running


def test_the_newest_checkpoint_waits_and_another_process_ends_the_sending(
    at, tiny, go, tmp_path, monkeypatch
):
    go(tiny(steps=4), "run")
    folder, notes, sent, first = RunFolder(tmp_path / "run"), Notes(), [], threading.Event()
    made = folder.checkpoints / "step-00000004"
    monkeypatch.setattr(
        mirror.Mirror, "_send", lambda self, name, links: (sent.append(name), first.wait(5))
    )
    sender = mirror.Mirror(at, folder, notes, Stop(), 1)
    sender.begin(resume=True)
    for step in (1, 2, 3):
        other = made.with_name(f"step-0000000{step}")
        shutil.copytree(made, other)
        sender.offer(other)
        shutil.rmtree(other)  # as a run does that keeps fewer
        while not sent:
            time.sleep(0.001)
    first.set()
    sender.close()
    assert sent == ["step-00000001", "step-00000003"]
    assert not [*folder.checkpoints.glob(".tmp-*")]
    # One that comes, and then the end, while small files are on their way.
    busy, free = threading.Event(), threading.Event()
    monkeypatch.setattr(mirror.Mirror, "_send_files", lambda self: (busy.set(), free.wait(5)))
    sender = mirror.Mirror(at, folder, notes, Stop(), 1)
    sender.begin(resume=True)
    assert busy.wait(5)
    sender.offer(made)
    threading.Timer(0.1, free.set).start()
    sender.close()
    assert sent[2:] == ["step-00000004"]
    monkeypatch.undo()
    FolderAt(at).write("checkpoints/step-00000005/manifest.json", b"{}")
    sender = mirror.Mirror(at, folder, notes, Stop(), 1)
    sender.begin(resume=True)
    sender.offer(made)
    assert "step-00000004" in sender.close()
    assert "another process has sent step-00000005" in notes.notes[0]
    assert "checkpoints/step-00000005/manifest.json" in FolderAt(at).sizes(below=True)
