"""Tiny runs see, bit for bit, what they saw, and run folders written before go on as they were."""

import pytest
import torch

from tests.net import goldens, steps
from tests.net.programs import FARM, PROGRAMS, UNTRAINED


@pytest.mark.parametrize("name", steps.OLD)
def test_an_old_run_is_read_as_it_was(name, tmp_path, in_the_farm):
    steps.assert_same(goldens.read("older.json.xz")[name], steps.used(name, tmp_path))


def test_old_runs_name_no_place_of_the_machine_that_wrote_them():
    texts = [f for f in steps.OLD_RUNS.rglob("*") if f.suffix in (".json", ".jsonl", ".bertc")]
    assert texts
    assert not [f for f in texts if '"/' in f.read_text() or "/home" in f.read_text()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(FARM)
        torch.use_deterministic_algorithms(True)
        yield tmp_path_factory.mktemp("net")
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in UNTRAINED])
def test_a_run_sees_and_learns_what_it_did(name, folder):
    now = steps.trained(name, folder / name.replace(" ", "-"))
    steps.assert_same(goldens.read("steps.json.xz")[steps.variant(name)], now)
