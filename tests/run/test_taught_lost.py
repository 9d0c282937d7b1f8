"""Taught networks that lose layers in a stage."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bertc.api import points
from bertc.base.diagnostics import SpecError
from bertc.run.models.loading import load
from bertc.run.train.loop import train
from tests.net.programs import TOY
from tests.run.conftest import text

pytestmark = pytest.mark.usefixtures("in_the_farm")
OWN = {**TOY, "layers": "4", "heads": "2", "head_dim": "", "ffn": "32", "steps": ""}
LOST = """
stage "whole" {{ teacher = "{0}"  objective = mlm + kd(hidden)  steps = 1 }}
stage "fewer" {{ prune = layers([1, 3])  teacher = "{0}"  steps = 1
    objective = mlm + kd(hidden, layers={1}) + kd(attention) }}
"""


@pytest.fixture
def bert(farm_run: Callable[[str], Path]) -> Path:
    return farm_run(text({**OWN, "objective": "mlm", "steps": "1"}))


def test_layers_that_are_left_learn_by_a_map_of_their_own(bert, cache, tmp_path):
    own, run = text({**OWN, "vocab": ""}), tmp_path / "run"
    (resolved,) = points(own + LOST.format(bert, "uniform"))
    first, second = ([t.objective.matched for t in s.objective[1:]] for s in resolved.stages)  # type: ignore[union-attr]
    assert first == [((0, 0), (1, 1), (2, 2), (3, 3), (4, 4))]
    assert second == [((0, 0), (1, 2), (2, 4)), ((1, 2), (2, 4))]
    train(resolved, run, cache=cache, quiet=True)
    assert load(run).encoder.node.depth == 2
    with pytest.raises(SpecError, match="4 layers of the teacher, and this network has 2") as error:
        points(own + LOST.format(bert, "[1, 2, 3, 4]"))
    found = error.value.diagnostics[0]
    assert found.help == "layers=[2, 4]"
    points(own + LOST.format(bert, "[2, 4]"))
