"""Dropout drops what it says, keeps the mean, and follows the seed."""

import pytest
import torch

from bertc.model.dropout import dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rate_and_scale(rate, dtype):
    torch.manual_seed(0)
    x = torch.ones(1000, 401, dtype=dtype)
    y = dropout(x, rate, training=True)
    dropped = (y == 0).float()
    assert dropped.mean().item() == pytest.approx(rate, abs=0.003)
    assert y[y != 0].unique().tolist() == torch.tensor([1 / (1 - rate)], dtype=dtype).tolist()
    # Neighbours come from one 64-bit word: they must not go together.
    together = (dropped[:, 1:] * dropped[:, :-1]).mean().item()
    assert together == pytest.approx(rate * rate, abs=0.003)


def test_nothing_is_dropped_in_evaluation_or_at_rate_zero():
    x = torch.randn(4, 5)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x
    assert not dropout(x, 1.0, training=True).any()


def test_draws_follow_the_seed():
    x = torch.ones(50, 7)
    torch.manual_seed(3)
    first = dropout(x, 0.2, training=True)
    assert not torch.equal(first, dropout(x, 0.2, training=True))
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x, 0.2, training=True))
