"""Layers computed twice: less is kept, and not a bit of the gradient changes."""

from unittest.mock import patch

import pytest
import torch

from bertc.api import resolve
from bertc.learn.objectives import MicroBatch
from bertc.learn.step.feed import to_inputs
from bertc.learn.step.step import TrainStep
from bertc.run.beginning.synthetic import RandomText
from tests.bench.estimates import allocated_bytes
from tests.bench.rig import make_step, random_rows
from tests.kinds import OBJECTIVES


def gradients(spec: str) -> dict[str, torch.Tensor]:
    """Of one step in two micro-batches, by weight."""
    resolved = resolve(spec)
    step = make_step(resolved, 4)
    step.gradients(step.read(random_rows(resolved)).micro_batches, 0)
    return {
        name: weight.grad for name, weight in step.parameters.items() if weight.grad is not None
    }


@pytest.mark.parametrize(
    "extra",
    [
        "", "share=all", "norm=pre", "share=attention format=segment-pair",
        "objective=rtd*50+mlm generator=0.5",
    ],
)  # fmt: skip
def test_gradients_are_the_same_to_the_bit(extra):
    spec = f"layers=3 hidden=32 heads=4 vocab=300 seq=32 batch=8 steps=100 precision=fp32 {extra}"
    once, twice = gradients(f"{spec} recompute=off"), gradients(f"{spec} recompute=on")
    assert once.keys() == twice.keys()
    assert resolve(spec).encoder.dropout.hidden > 0
    for name, gradient in once.items():
        assert torch.equal(gradient, twice[name]), name


def test_depth_costs_little_memory():
    spec = "hidden=32 heads=4 vocab=300 seq=64 batch=16 microbatch=16 steps=100"
    grown = {
        recompute: allocated_bytes(resolve(f"layers=6 {spec} recompute={recompute}"))
        - allocated_bytes(resolve(f"layers=3 {spec} recompute={recompute}"))
        for recompute in ("off", "on")
    }
    assert grown["on"] < grown["off"] / 5


TOY = "layers=2 hidden=32 heads=2 vocab=500 seq=64 batch=4 steps=10 precision=fp32 dropout=0"
CPU = torch.device("cpu")
pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # The compiler's own.
    pytest.mark.usefixtures("nothing_compiled"),
]


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
        "a GPU": patch("bertc.model.attention.attend.eager_cpu", lambda x: False),
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
