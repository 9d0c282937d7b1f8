"""Tiny runs see, bit for bit, what they saw, and learn of it what they learned.

What is compared, and why there, says ``steps.py``; how to renew it, ``test_compiled.py``.
"""

import pytest
import torch

from tests.net import goldens, steps
from tests.net.programs import FARM, PROGRAMS, UNTRAINED


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
