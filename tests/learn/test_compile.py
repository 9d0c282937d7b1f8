"""Corruption and losses trace as one graph, and the trace computes the same."""

import pytest
import torch

from bertc.learn.objectives import Losses, MicroBatch, TermLoss, corrupt
from bertc.model.body import Outputs
from tests.learn.material import program, rows, vocab
from tests.learn.test_addresses import TERMS, tensors
from tests.learn.test_losses import setting, weights


@pytest.mark.parametrize("terms", TERMS[1:])  # the last one draws single tokens too
def test_corruption_is_one_graph(terms: str) -> None:
    stage, vocabulary = program(terms, 24).stages[0], vocab()
    torch.compiler.reset()
    traced = torch.compile(corrupt, fullgraph=True, dynamic=False, backend="eager")
    for seed in (1, 2):
        inputs = rows(4, 24, seed=seed)
        plain = tensors(corrupt(stage, inputs, vocabulary, 5))
        for a, b in zip(tensors(traced(stage, inputs, vocabulary, 5)), plain, strict=True):
            assert torch.equal(a, b)


def test_losses_are_one_graph_with_the_same_values_and_gradients() -> None:
    batch, hidden, model = setting("span+sbo+sop")
    torch.compiler.reset()
    stage = model.resolved.stages[0]
    scored = Losses(model, stage, stage.networks()[-1])

    def losses(batch: MicroBatch, hidden: torch.Tensor) -> dict[str, TermLoss]:
        return scored(batch, Outputs(hidden))

    traced = torch.compile(losses, fullgraph=True, dynamic=False, backend="aot_eager")
    leaves = [*weights(model).values(), hidden]

    def gradients(terms: dict[str, TermLoss]) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(torch.stack([term.sum for term in terms.values()]).sum(), leaves)

    plain = losses(batch, hidden)
    compiled = traced(batch, hidden)
    for kind, term in plain.items():
        torch.testing.assert_close(compiled[kind].sum, term.sum)
        assert compiled[kind].count == term.count
        assert compiled[kind].correct == term.correct
    for a, b in zip(gradients(compiled), gradients(plain), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)
