"""Each operation's rule beside real tensors, and the walk over every kind of part."""

import json
from collections.abc import Callable
from itertools import count

import pytest
import torch
import torch.nn.functional as F

from bertc.api import resolve
from bertc.cost import device_named, estimate
from bertc.cost.execution import Execution
from bertc.cost.machines.calibration import calibration_here, calibration_path
from bertc.cost.machines.rates import Point, rate_at
from bertc.cost.rules import cost
from bertc.ir import operation as op
from bertc.ir.network.norm import LayerNorm
from bertc.model import EncoderInputs
from bertc.model.attend import attend
from bertc.model.masks import Mask, kernel_mask
from bertc.model.norm import Norm, build_norm, sum_and_norm
from bertc.run.calibrate import Sizes, calibrated
from tests.kinds import OBJECTIVES

EAGER = Execution("cpu", "fp32", compiled=False)
ROWS, WIDTH = 6, 16


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def saved_bytes(function: Callable[[], object], *weights: torch.Tensor) -> int:
    """Bytes of all distinct tensors that autograd saves, without these weights."""
    found: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        function()
    known = {weight.data_ptr() for weight in weights}
    return sum(size for address, size in found.items() if address not in known)


def make_norm() -> Norm:
    node = LayerNorm(eps=1e-5)
    norm = build_norm({w.name: w for w in node.weights("n", "hidden", WIDTH)}, "n", node)
    for weight in norm.parameters():
        torch.nn.init.ones_(weight)
    return norm


def kept_by_kind() -> dict[str, tuple[op.Operation, int]]:
    """Operations with the bytes that the real ones leave."""
    x, y, weight = leaf(ROWS, WIDTH), leaf(ROWS, WIDTH), leaf(8, WIDTH)
    q, k, v = (leaf(2, 3, 5, 4) for _ in range(3))
    norm, far = make_norm(), [leaf(2, 3, 384, 4) for _ in range(3)]
    blocks = kernel_mask(EncoderInputs(torch.zeros(2, 384, dtype=torch.long)), False, False, 8)
    return {
        "product": (op.Product(ROWS, WIDTH, 8), saved_bytes(lambda: F.linear(x, weight), weight)),
        "gelu": (op.Pointwise("gelu", ROWS * WIDTH, ROWS * WIDTH), saved_bytes(lambda: F.gelu(x))),
        "norm": (op.Norm(ROWS, WIDTH), saved_bytes(lambda: norm(x), *norm.parameters())),
        "norm of a sum": (
            op.Norm(ROWS, WIDTH, residual=True),
            saved_bytes(lambda: sum_and_norm(norm, x, y, 0.0, True), *norm.parameters()),
        ),
        "fused attention": (
            op.Attention(2, 5, 5, 3, 4, dropout=False),
            # Its result is the next product's input, and counted there.
            saved_bytes(lambda: attend(q, k, v, Mask(), 0.0)) - 4 * q.numel(),
        ),
        "attention in windows": (
            op.Attention(2, 384, 384, 3, 4, dropout=False, reach=8),
            saved_bytes(lambda: attend(*far, blocks, 0.0)) - 4 * far[0].numel(),
        ),
        "attention in windows with dropout": (
            op.Attention(2, 384, 384, 3, 4, dropout=True, reach=8),
            saved_bytes(lambda: attend(*far, blocks, 0.1)),
        ),
        "attention with dropout": (
            op.Attention(2, 5, 5, 3, 4, dropout=True),
            saved_bytes(lambda: attend(q, k, v, Mask(), 0.1)),
        ),
    }


def test_rules_keep_what_autograd_keeps() -> None:
    for name, (operation, saved) in kept_by_kind().items():
        assert cost(operation, EAGER).kept == pytest.approx(saved, rel=0.05), name


def test_a_constant_factor_has_no_gradient_and_what_is_kept_elsewhere_is_not_kept_again() -> None:
    product = op.Product(ROWS, WIDTH, 8, constant=True, keeps_rows=False)
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
