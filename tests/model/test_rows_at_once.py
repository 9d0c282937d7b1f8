"""Rows whose scores are made part after part, as a CPU's caches have it, beside all together."""

import pytest
import torch

from bertc.api import resolve
from bertc.model import EncoderInputs, attend, build

B, S = 5, 8
# So seldom that none of the draws means it, and yet scores are made as for dropout.
SELDOM = "dropout=dropout(attention=1e-6, hidden=0)"
BASE = f"layers=2 hidden=16 heads=2 vocab=50 seq=16 {SELDOM} objective="
KINDS = [
    "mlm", "clm", "mlm attention=relative(segments=true)", "clm attention=relative",
    "mlm attention=disentangled(4, 8)",
]  # fmt: skip
IDS = torch.randint(5, 50, (B, S), generator=torch.Generator().manual_seed(1))
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, 1, 0, 1]] * B)
LENGTHS = torch.tensor([8, 3, 5, 8, 1])
READINGS = {
    "whole": EncoderInputs(IDS, SEGMENTS),
    "padded": EncoderInputs(IDS, SEGMENTS, attention_mask=torch.arange(S) < LENGTHS[:, None]),
    "packed": EncoderInputs(
        IDS, SEGMENTS, sequence_ids=(torch.arange(S) >= LENGTHS[:, None]).long()
    ),
    "asked": EncoderInputs(IDS, SEGMENTS, output_positions=torch.tensor([[0, 2]] * B)),
}


@pytest.mark.parametrize("how", READINGS)
@pytest.mark.parametrize("extra", KINDS)
def test_part_after_part_gives_the_same(extra, how, monkeypatch):
    model = build(resolve(BASE + extra)).train()
    found = []
    row = 2 * S * S * 4
    for size in (1 << 20, 2 * row, 1):
        monkeypatch.setattr(attend, "SCORES_AT_ONCE", size)
        parts = attend.rows_at_once(B, row // 4, torch.zeros(0))
        states = model.read(READINGS[how])
        weights = [w for w in model.parameters() if w.requires_grad]
        grads = torch.autograd.grad(states.square().sum(), weights, allow_unused=True)
        found.append((len(parts), states, [g for g in grads if g is not None]))
    assert [count for count, *_ in found] == [1, 3, B]
    _, states, grads = found[0]
    for _, same, alike in found[1:]:
        torch.testing.assert_close(same, states)
        torch.testing.assert_close(alike, grads)
