"""A step computes the same where it runs as on other machines."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest
import torch

from bertc.api import resolve
from bertc.learn.objectives import MicroBatch
from bertc.learn.step.feed import to_inputs
from bertc.learn.step.step import TrainStep
from bertc.run.beginning.synthetic import RandomText
from tests.bench.rig import make_step
from tests.kinds import OBJECTIVES

TOY = "layers=2 hidden=32 heads=2 vocab=500 seq=64 batch=4 steps=10 precision=fp32 dropout=0"
CPU = torch.device("cpu")
pytestmark = pytest.mark.filterwarnings("ignore")  # The compiler's own.


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def step_and_micro_batches(extra: str) -> tuple[TrainStep, list[MicroBatch]]:
    """The step of a toy and its first batch."""
    resolved = resolve(f"{TOY} {extra}", ["microbatch=4"])
    step = make_step(resolved, 4)
    stage = resolved.stages[0]
    return step, step.read(to_inputs(RandomText(stage, 500).train(0), CPU)).micro_batches


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_the_branches_of_other_machines_compute_the_same(objective):
    def gradients() -> dict[str, torch.Tensor]:
        step, micro_batches = step_and_micro_batches(objective)
        sums, *_ = step.gradients(micro_batches, 0)
        grown = {n: p.grad for n, p in step.parameters.items() if p.grad is not None}
        return {"losses": torch.stack(sums), **grown}

    here = gradients()
    others = {
        "a GPU": patch("bertc.model.attend.eager_cpu", lambda x: False),
        "compiled": patch.object(torch.compiler, "is_compiling", lambda: True),
    }
    for machine, pretended in others.items():
        with pretended:
            there = gradients()
        assert here.keys() == there.keys()
        for name, tensor in here.items():
            most = tensor.abs().max().item()
            near = {"atol": 1e-4 * most + 1e-9, "rtol": 1e-4}
            torch.testing.assert_close(
                there[name], tensor, **near, msg=lambda text, machine=machine: f"{machine}: {text}"
            )
