"""Shapes are checked at every call of a step of every kind, and cost nothing where none asks."""

import subprocess
import sys

from bertc.model.attention.attend import attend
from tests.kinds import OBJECTIVES


def test_every_kind_keeps_to_the_shapes_it_names():
    code = "from tests.shapes import *; check_shapes(); print(refused()); take_steps()"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "checking the parameters of bertc.model.attention.attend._attend" in ran.stdout
    assert ran.stdout.splitlines()[-1] == [*OBJECTIVES.values()][-1]


def test_nothing_is_checked_otherwise():
    assert not hasattr(attend, "__wrapped__")
