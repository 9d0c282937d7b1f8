"""A step that goes wrong leaves everything as it was, though nobody waits for what it finds."""

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from bertc.api import resolve
from bertc.diagnostics import DataError
from bertc.nn import build
from bertc.planning.plan import Plan
from bertc.step import synthetic
from bertc.step.feed import Feed
from bertc.step.step import TrainStep, _seed_draws

SPEC = "layers=1 hidden=16 heads=2 vocab=64 seq=16 batch=4 microbatch=2 steps=9 compile=off"
State = Callable[[], list[torch.Tensor]]


@pytest.fixture(params=["adam", "lamb"])
def made(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[TrainStep, Feed, State]]:
    """A step, its batches, and the weights and moments that it changes."""
    resolved = resolve(f"{SPEC} optimizer={request.param}")
    model, kept = build(resolved), list[dict[str, torch.Tensor]]()
    zero_moments = synthetic.zero_moments

    def keep(*told: Any) -> dict[str, torch.Tensor]:
        kept.append(zero_moments(*told))
        return kept[0]

    monkeypatch.setattr(synthetic, "zero_moments", keep)
    plan = Plan("cpu", "fp32", (2,), (False,), False, ())
    step = synthetic.first_step(resolved, model, plan)

    def state() -> list[torch.Tensor]:
        tensors = itertools.chain(step.parameters.values(), *(m.values() for m in kept))
        return [tensor.detach().clone() for tensor in tensors]

    text = synthetic.RandomText(resolved.stages[0], 64)
    with Feed(text, 0, 9, torch.device("cpu"), step.corrupt) as feed:
        yield step, feed, state


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(map(torch.equal, one, other))


@pytest.mark.parametrize("infinite", [math.nan, math.inf])
def test_weights_and_moments_outlive_a_bad_step(made: Any, infinite: float) -> None:
    step, feed, state = made
    step(feed.take(), 0, 0.01)
    before, objective = state(), step._objective

    def bad(*arguments: Any) -> Any:
        loss, statistics, memory = objective(*arguments)
        return loss * torch.tensor(infinite), statistics, memory

    step._objective = bad
    batch = feed.take()
    with pytest.raises(DataError, match="step 1: the gradient of mlm is not finite"):
        step(batch, 1, 0.01)
    assert same(before, state())
    step._objective = objective
    step(batch, 1, 0.01)
    assert not same(before, state())


def test_the_next_batch_is_taken_before_any_weight_moves(made: Any) -> None:
    step, feed, state = made
    before = state()

    def fails() -> None:
        assert same(before, state())
        raise MemoryError

    with pytest.raises(MemoryError):
        step(feed.take(), 0, 0.01, fails)
    assert same(before, state())
    step(feed.take(), 0, 0.01, feed.look_ahead)
    assert feed._ready
    assert not same(before, state())


def test_draws_on_a_cpu_are_those_of_torch_s_own_seed() -> None:
    for seed in (0, 5, 2**63 + 5):
        torch.manual_seed(seed)
        drawn = torch.rand(4)
        _seed_draws(torch.device("cpu"), seed)
        assert torch.equal(torch.rand(4), drawn)
