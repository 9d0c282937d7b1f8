"""Other processes give the same answers in the same order, and their end is noticed."""

import math
import signal
from collections.abc import Iterator

import pytest

from bertc.base.diagnostics import MachineError
from bertc.ir.data import Docstrings, Files
from bertc.text import shards
from bertc.text.cache.store import Silent
from bertc.text.cache.workers import JOBS_AHEAD, processes, spread
from bertc.text.sources import opening
from bertc.text.sources.opening import open_source


def test_answers_come_in_order_and_jobs_are_read_as_needed() -> None:
    asked = []

    def jobs() -> Iterator[tuple[str, int]]:
        for number in range(40):
            asked.append(number)
            yield f"note {number}", number

    answers = spread(math.factorial, jobs(), 2)
    assert next(answers) == ("note 0", 1)
    assert len(asked) <= 2 * JOBS_AHEAD + 1
    assert list(answers) == [(f"note {n}", math.factorial(n)) for n in range(1, 40)]
    assert list(spread(math.factorial, [("here", 5)], 1)) == [("here", 120)]
    assert processes(100, 1000) == 1 <= processes(10**12, 1000) <= 16


def test_ends_of_processes_are_noticed_and_signals_to_all_are_left_to_the_first(capfd):
    for jobs in (1, 8):
        with pytest.raises(MachineError, match="ended by SIGKILL"):
            list(spread(signal.raise_signal, [("", signal.SIGKILL)] * jobs, 2))
    answers = list(spread(signal.raise_signal, [("", s) for s in (2, 15, 2, 15)], 2))
    assert len(answers) == 4
    with pytest.raises(RuntimeError, match="exit code 1"):
        list(spread(math.sqrt, [("", -1.0)], 2))
    assert "math domain error" in capfd.readouterr().err


def test_tokens_do_not_depend_on_the_number_of_processes(made, farm, tmp_path, monkeypatch):
    vocabulary = made("vocab=bpe(400) objective=mlm seq=64 batch=4").vocabulary
    monkeypatch.setattr(shards, "BATCH_CHARACTERS", 2000)
    contents = []
    for number in (1, 2):
        monkeypatch.setattr(shards, "processes", lambda *_, many=number: many)
        folder = tmp_path / str(number)
        folder.mkdir()
        source = open_source(Files(path=str(farm)))
        facts = shards.tokenise(folder, source, vocabulary, 0.2, Silent())
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        contents.append((facts, files))
    assert contents[0] == contents[1]


def test_docstrings_do_not_depend_on_the_number_of_processes(monkeypatch):
    read = []
    for number in (1, 2):
        monkeypatch.setattr(opening, "processes", lambda *_, many=number: many)
        read.append(list(open_source(Docstrings(packages=("json", "email"))).read()))
    assert read[0] == read[1]
    assert any(piece.text for piece in read[0])
