"""Models with weights far from zero, and their products as torch counts them."""

import pytest
import torch
from torch.nn.functional import pad

from bertc.cost import estimate
from bertc.ir.program.resolved import Resolved
from bertc.model import EncoderInputs, Model, build, gather_positions
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


@torch.no_grad()
def assert_alone(model: Model, seq: int, padding: int = 4) -> None:
    """States of two rows are the same at a few positions, padded, and packed into one row."""
    ids, places = rows_of(2, seq), torch.tensor([[6, 0, 3], [2, 2, seq - 1]])
    whole, close = model.encode(ids), {"atol": 1e-5, "rtol": 1e-4}
    few = model.read(EncoderInputs(ids, output_positions=places))
    torch.testing.assert_close(few, gather_positions(whole, places), **close)
    mask = torch.arange(seq + padding).expand(2, -1) < seq
    padded = model.encode(pad(ids, (0, padding)), attention_mask=mask)
    assert padded.isfinite().all()
    torch.testing.assert_close(padded[:, :seq], whole, **close)
    packed = EncoderInputs(ids.view(1, -1), sequence_ids=torch.tensor([[1] * seq + [2] * seq]))
    flat, places = whole.view(1, 2 * seq, -1), torch.tensor([[6, 0, seq, 2 * seq - 1]])
    torch.testing.assert_close(model.read(packed), flat, **close)
    few = model.read(packed._replace(output_positions=places))
    torch.testing.assert_close(few, gather_positions(flat, places), **close)


def attended_states(model: Model, *inputs: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What each layer's attention reads, and its new states."""
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    for part in model.encoder.attention.values():
        part.register_forward_hook(lambda _, read, states: seen.append((read[0], states)))
    model.encode(*inputs)
    return seen


def assert_counted(resolved: Resolved, train: float = 1e-4, **forward: float) -> None:
    """The products of a step with ``ROWS`` are as many as torch counts."""
    counted = counted_by_torch(resolved, resolved.stages[0])
    stated = estimate(resolved).stages[0].flops
    assert stated.forward_per_example == pytest.approx(counted[0], **(forward or {"abs": 1}))
    assert stated.train_per_example == pytest.approx(counted[1], rel=train)
