"""Models with weights far from zero, and their products as torch counts them."""

import pytest
import torch

from bertc.cost import estimate
from bertc.ir.program.resolved import Resolved
from bertc.model import Model, build
from tests.specs.test_flop_counter import BATCH, counted_by_torch

ROWS = f"batch={BATCH} microbatch={BATCH}"


def drawn(resolved: Resolved, std: float = 0.4) -> Model:
    """A model for evaluation, every weight drawn from a normal distribution."""
    model = build(resolved).eval()
    generator = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=std, generator=generator)
    return model


def rows_of(batch: int, seq: int) -> torch.Tensor:
    """Ids (batch, seq) of 5 to 49."""
    return torch.randint(5, 50, (batch, seq), generator=torch.Generator().manual_seed(1))


def assert_counted(resolved: Resolved, train: float = 1e-4, **forward: float) -> None:
    """The products of a step with ``ROWS`` are as many as torch counts."""
    counted = counted_by_torch(resolved, resolved.stages[0])
    stated = estimate(resolved).stages[0].flops
    assert stated.forward_per_example == pytest.approx(counted[0], **(forward or {"abs": 1}))
    assert stated.train_per_example == pytest.approx(counted[1], rel=train)
