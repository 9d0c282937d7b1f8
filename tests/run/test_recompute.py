"""Layers computed twice: less is kept, and not a bit of the gradient changes."""

import pytest
import torch

from bertc.api import resolve
from bertc.run.records.changes import differences
from bertc.run.records.folder import identity
from tests.bench.estimates import allocated_bytes
from tests.bench.rig import make_step, random_rows


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
        "",
        "share=all",
        "norm=pre",
        "share=attention format=segment-pair",
        "objective=rtd*50+mlm generator=0.5",
    ],
)
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


def test_a_run_may_be_resumed_with_it():
    once, twice = (resolve(f"steps=100 recompute={asked}") for asked in ("off", "on"))
    assert identity(once) == identity(twice)
    assert not differences(once, twice)
