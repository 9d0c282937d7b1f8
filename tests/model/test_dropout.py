"""Dropout drops what it says, keeps the mean, and follows the seed."""

import pytest
import torch
import torch.nn.functional as F

from bertc.model.attend import attend
from bertc.model.dropout import dropout
from bertc.model.masks import Mask


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rate_and_scale(rate: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.ones(1000, 401, dtype=dtype)
    y = dropout(x, rate, training=True)
    dropped = (y == 0).float()
    assert dropped.mean().item() == pytest.approx(rate, abs=0.003)
    assert y[y != 0].unique().tolist() == torch.tensor([1 / (1 - rate)], dtype=dtype).tolist()
    # Neighbours come from one 64-bit word: they must not go together.
    together = (dropped[:, 1:] * dropped[:, :-1]).mean().item()
    assert together == pytest.approx(rate * rate, abs=0.003)


def test_nothing_is_dropped_in_evaluation_or_at_rate_zero() -> None:
    x = torch.randn(4, 5)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x
    assert not dropout(x, 1.0, training=True).any()


def test_draws_follow_the_seed() -> None:
    x = torch.ones(50, 7)
    torch.manual_seed(3)
    first = dropout(x, 0.2, training=True)
    assert not torch.equal(first, dropout(x, 0.2, training=True))
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x, 0.2, training=True))


def test_attention_without_dropout_is_the_library_s() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 4, 9, 8).unbind(0)
    mask = (torch.arange(9) < 6)[None, None, None].expand(2, 1, 1, 9)
    expected = F.scaled_dot_product_attention(q, k, v, mask)
    torch.testing.assert_close(attend(q, k, v, Mask(mask), 0.0), expected)


def test_attention_dropout_is_right_on_average() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 6, 4).unbind(0)
    mask = torch.tensor([True, True, True, True, False, False])[None, None, None]
    mean = torch.stack([attend(q, k, v, Mask(mask), 0.2) for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, attend(q, k, v, Mask(mask), 0.0), atol=0.05, rtol=0)
