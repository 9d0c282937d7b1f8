"""Who waits for another process to prepare a folder can be stopped, and goes on when it is done."""

import fcntl

import pytest

from bertc.data.cache.progress import Silent
from bertc.data.cache.store import obtain


@pytest.fixture
def held(tmp_path):
    """The lock of a folder, held elsewhere."""
    with (tmp_path / "made.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


class Asked(Silent):
    """Does something when told that time passes."""

    def __init__(self, then):
        self.then, self.waited = then, []

    def begin(self, task, total, unit):
        self.waited.append(task)

    def advance(self, amount):
        self.then()


def made(folder):
    (folder / "a").write_text("text")
    return {}


def test_it_can_be_stopped(tmp_path, held):
    def stop():
        raise KeyboardInterrupt

    progress = Asked(stop)
    with pytest.raises(KeyboardInterrupt):
        obtain(tmp_path / "made", made, progress)
    assert "waiting" in progress.waited[0]
    assert not (tmp_path / "made").exists()


def test_it_goes_on_when_the_other_is_done(tmp_path, held):
    progress = Asked(lambda: fcntl.flock(held, fcntl.LOCK_UN))
    obtain(tmp_path / "made", made, progress)
    assert (tmp_path / "made" / "a").read_text() == "text"
