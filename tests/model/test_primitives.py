"""Rows whose scores are made in parts, dropout, and gradients of picked rows, as torch has them."""

from typing import Any

import pytest
import torch

from bertc.api import resolve
from bertc.model import EncoderInputs, build
from bertc.model.attention import attend
from bertc.model.attention.relative import gather_distances
from bertc.model.native.kernels import dropout
from bertc.model.weights import look_up_rows
from tests.traced import traced

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
    "packed": EncoderInputs(IDS, SEGMENTS, sequence_ids=(torch.arange(S) >= LENGTHS[:, None]) + 0),
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


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rate_and_scale(rate, dtype):
    torch.manual_seed(0)
    y = dropout(torch.ones(1000, 401, dtype=dtype), rate, training=True)
    dropped = (y == 0).float()
    assert dropped.mean().item() == pytest.approx(rate, abs=0.003)
    assert y[y != 0].unique().tolist() == torch.tensor([1 / (1 - rate)], dtype=dtype).tolist()
    # Neighbours come from one 64-bit word: they must not go together.
    assert (dropped[:, 1:] * dropped[:, :-1]).mean().item() == pytest.approx(rate * rate, abs=0.003)


def test_nothing_is_dropped_in_evaluation_or_at_rate_zero():
    x = torch.randn(4, 5)
    assert dropout(x, 0.5, training=False) is x
    assert dropout(x, 0.0, training=True) is x
    assert not dropout(x, 1.0, training=True).any()
    # Draws follow the seed.
    x = torch.ones(50, 7)
    torch.manual_seed(3)
    first = dropout(x, 0.2, training=True)
    assert not torch.equal(first, dropout(x, 0.2, training=True))
    torch.manual_seed(3)
    assert torch.equal(first, dropout(x, 0.2, training=True))


pytestmark = pytest.mark.filterwarnings("ignore")  # the compiler's own


def compiled(function, operations):
    """The function as the compiler has it before it writes code, whose operations are noted."""
    with traced(lambda graph: operations.update(str(node.target) for node in graph.graph.nodes)):
        return torch.compile(function, fullgraph=True, dynamic=False)


@pytest.mark.parametrize("rows", [2, 5])
def test_picked_rows_have_torchs_gradient_without_a_scatter(rows):
    generator = torch.Generator().manual_seed(3)
    tables = [torch.randn(rows, 4, generator=generator).requires_grad_() for _ in range(2)]
    tables[1].data.copy_(tables[0])
    ids = torch.randint(0, rows, (3, 7), generator=generator)
    upstream = torch.randn(3, 7, 4, generator=generator)
    operations: set[str] = set()
    found = [look_up_rows(tables[0], ids), compiled(look_up_rows, operations)(tables[1], ids)]
    assert torch.equal(*found)
    for vectors in found:
        vectors.backward(upstream)
    gradients: list[Any] = [table.grad for table in tables]
    torch.testing.assert_close(*gradients)
    _refuse_scatters(operations)


def test_scores_by_distance_are_gather_distances_and_brought_back():
    generator = torch.Generator().manual_seed(3)
    n, b, q, context = 2, 3, 4, 6
    scores = torch.randn(n, b, q, context + 1, generator=generator).requires_grad_()
    places = torch.randint(0, context, (b, q), generator=generator)
    upstream = torch.randn(n, b, q, context, generator=generator)
    entry = context - 1 - places[:, :, None] + torch.arange(context)
    upstream = upstream * (entry < scores.shape[3])  # nobody sees the others

    def gathered(scores, context, places):
        return scores.gather(3, entry.clamp(max=context).expand(n, b, q, context))

    operations: set[str] = set()
    for function in (gather_distances, compiled(gather_distances, operations)):
        results = [f(scores, context, places) for f in (gathered, function)]
        assert torch.equal(*results)
        wanted, made = (torch.autograd.grad(result, scores, upstream)[0] for result in results)
        assert torch.equal(wanted, made)
    _refuse_scatters(operations)


def _refuse_scatters(operations):
    assert operations
    assert not {name for name in operations if "index_put" in name or "scatter" in name}
