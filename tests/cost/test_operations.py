"""Each operation's rule beside real tensors, and the walk over every kind of part."""

import json
from collections.abc import Callable
from itertools import count

import pytest
import torch

from bertc.api import resolve
from bertc.cost import device_named, estimate
from bertc.cost.execution import Execution
from bertc.cost.machines.calibration import calibration_here, calibration_path
from bertc.cost.machines.device import Point, rate_at
from bertc.cost.rules import cost
from bertc.ir import operation as op
from bertc.model import EncoderInputs
from bertc.model.attention.attend import attend
from bertc.model.attention.masks import kernel_mask
from bertc.run.calibrate import Sizes, calibrated
from tests.kinds import OBJECTIVES

EAGER = Execution("cpu", "fp32", compiled=False)


def saved_bytes(function: Callable[[], object]) -> int:
    """Bytes of all distinct tensors that autograd saves."""
    found: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        function()
    return sum(found.values())


def test_windows_keep_what_autograd_keeps() -> None:
    """All other rules are held by what whole networks keep (test_memory.py)."""
    far = [torch.randn(2, 3, 384, 4, requires_grad=True) for _ in range(3)]
    blocks = kernel_mask(EncoderInputs(torch.zeros(2, 384, dtype=torch.long)), False, 8)
    for rate, result in ((0.0, 4 * far[0].numel()), (0.1, 0)):  # the next product's input
        attention = op.Attention(2, 384, 384, 3, 4, dropout=rate > 0, reach=8)
        saved = saved_bytes(lambda rate=rate: attend(*far, blocks, rate)) - result
        assert cost(attention, EAGER).kept == pytest.approx(saved, rel=0.05)


def test_a_constant_factor_has_no_gradient_and_what_is_kept_elsewhere_is_not_kept_again() -> None:
    product = op.Product(6, 16, 8, constant=True, keeps_rows=False)
    found = cost(product, EAGER)
    assert (found.train_flops, found.kept) == (2 * found.flops, 0)


@pytest.mark.parametrize("device", ["cpu", "h200"])
@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_every_kind_has_time_in_every_part(objective: str, device: str) -> None:
    toy = "layers=2 hidden=32 heads=2 vocab=500 seq=64 batch=4 steps=10"
    (stage,) = estimate(resolve(f"{toy} {objective}"), device).stages
    times = {part.part: part.seconds for part in stage.where}
    assert all(times[part] > 0 for part in ("embeddings", "attention", "ffn", "head", "optimiser"))


def test_rates_lie_between_those_that_were_measured() -> None:
    points = (Point(at=(64,), rate=1e9), Point(at=(256,), rate=4e9))
    assert rate_at(points, 64) == pytest.approx(1e9, rel=0.01)
    assert rate_at(points, 128) == pytest.approx(2e9)
    assert 1e9 < rate_at(points, 100) < 2e9


def test_a_calibration_is_what_estimates_use(monkeypatch, tmp_path):
    monkeypatch.setenv("BERTC_CACHE", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert device_named("cpu").time_within == 2
    ticks = count(0, 1)
    monkeypatch.setattr("time.process_time", lambda: next(ticks) * 1e-3)
    found = calibrated((1,), Sizes(scale=32))
    path = calibration_path()
    path.parent.mkdir(parents=True)
    path.write_text(found.as_json())
    assert calibration_here() == found
    device = device_named("cpu")
    assert device.rates == found.threads[1]
    assert "measured here" in device.source
    assert estimate(resolve("bert-tiny"), device).time.within is None
    assert found.at(2).bandwidth_bytes == 2 * found.threads[1].bandwidth_bytes
    path.write_text(json.dumps({"schema": 1, "torch": "x", "threads": {"1": {}}}))
    assert calibration_here() is None
