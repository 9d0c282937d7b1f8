"""Run folders written before the code was rebuilt go on, are evaluated and exported as they were.

``older.py`` says how they came about. What comes of them is renewed with
`python -m tests.net.renew older`; the folders themselves never are.
"""

import pytest

from bertc.run.train import finish
from tests.net import goldens, older, steps
from tests.net.programs import FARM


@pytest.mark.parametrize("name", older.NAMES)
def test_an_old_run_is_read_as_it_was(name, tmp_path, monkeypatch):
    monkeypatch.chdir(FARM)
    monkeypatch.setattr(finish, "plot", lambda lines, path: path.touch())
    found = steps.differences(goldens.read("older.json.xz")[name], older.used(name, tmp_path))
    assert not found, f"{len(found)} differences\n" + "\n".join(found[:20])


def test_old_runs_name_no_place_of_the_machine_that_wrote_them():
    texts = [f for f in older.OLD_RUNS.rglob("*") if f.suffix in (".json", ".jsonl", ".bertc")]
    assert texts
    assert not [f for f in texts if '"/' in f.read_text() or "/home" in f.read_text()]
