"""Gradients of what is picked: as torch has them, and no scatter where a compiler makes them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from bertc.model.relative import gather_distances
from bertc.model.weights import picked
from tests.traced import traced

pytestmark = pytest.mark.filterwarnings("ignore")  # the compiler's own


def compiled(function: Callable[..., Any], operations: set[str]) -> Callable[..., Any]:
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
    found = [picked(tables[0], ids), compiled(picked, operations)(tables[1], ids)]
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

    def gathered(scores: Tensor, context: int, places: Tensor) -> Tensor:
        return scores.gather(3, entry.clamp(max=context).expand(n, b, q, context))

    operations: set[str] = set()
    for function in (gather_distances, compiled(gather_distances, operations)):
        results = [f(scores, context, places) for f in (gathered, function)]
        assert torch.equal(*results)
        wanted, made = (torch.autograd.grad(result, scores, upstream)[0] for result in results)
        assert torch.equal(wanted, made)
    _refuse_scatters(operations)


def _refuse_scatters(operations: set[str]) -> None:
    assert operations
    assert not {name for name in operations if "index_put" in name or "scatter" in name}
