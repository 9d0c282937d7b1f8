"""How a run goes on where the machine is another than it began on."""

from bertc.api import resolve
from bertc.machine.display import Display
from bertc.machine.machine import detect
from bertc.run.records.folder import RunFolder
from bertc.run.train import start


class Noting(Display):
    def __init__(self):
        self.notes = []

    def note(self, message):
        self.notes.append(message)


def test_kernels_that_come_or_go_are_told(tiny, tmp_path, monkeypatch, go):
    """They draw dropout another way than torch's, so what follows is another run."""
    resolved = tiny(steps=3)
    go(resolved)
    lock = RunFolder(tmp_path / "run").read_lock()
    for before, now, told in (
        ("", "", ""),
        ("no compiler", "no compiler", ""),
        ("", "no compiler", "started with kernels for this processor, now without them"),
        ("no compiler", "", "started without kernels for this processor, now with them"),
    ):
        noting = Noting()
        lock.machine["without_kernels"] = before
        monkeypatch.setattr(start, "missing", lambda value, now=now: now)
        start.plan_of(resolved, detect("cpu"), lock, noting)
        found = [note for note in noting.notes if "kernels for this processor" in note]
        assert [told in note for note in found] == ([True] if told else [])


def test_text_that_no_one_named_is_said(tiny):
    for resolved, said in ((resolve("layers=1"), True), (tiny(), False)):
        noting = Noting()
        start.plan_of(resolved, detect("cpu"), None, noting)
        assert ("1,000,000 steps on docstrings" in noting.notes[-1]) == said
