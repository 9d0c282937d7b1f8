"""Original tokens from replaced ones: what is predicted, and the copying of the input."""

import pytest
import torch
import torch.nn.functional as F

from bertc.learn.objectives import corrupt
from bertc.learn.objectives.rtd import copied_losses
from tests.learn.material import program, rows, vocab


def test_a_copied_token_has_the_probability_of_the_mixture():
    scores_nv, copies_n = torch.randn(3, 7), torch.tensor([2.0, -1.0, 0.0])
    originals_n, inputs_n = torch.tensor([4, 2, 5]), torch.tensor([4, 3, 5])
    share_n1 = copies_n.sigmoid()[:, None]
    mixed_nv = share_n1 * F.one_hot(inputs_n, 7) + (1 - share_n1) * scores_nv.softmax(1)
    expected_n = -mixed_nv.gather(1, originals_n[:, None])[:, 0].log()
    losses_n = F.cross_entropy(scores_nv, originals_n, reduction="none")
    found_n = copied_losses(losses_n, copies_n, inputs_n == originals_n)
    torch.testing.assert_close(found_n, expected_n)


@pytest.mark.parametrize("over", ["masked", "all"])
def test_the_originals_are_predicted_where_tokens_were_replaced(over):
    stage = program(f"restore({over})", 40, "generator=unigram").stages[0]
    batch = corrupt(stage, rows(8, 40), vocab(), 5)
    own = batch.terms["restore"]
    chosen_bs = torch.zeros_like(batch.originals).scatter_add_(1, own.positions, own.weights.long())
    changed_bs = batch.reading.token_ids != batch.originals
    assert changed_bs.any()
    assert not (changed_bs & (chosen_bs == 0)).any()
    every = over == "all"
    assert torch.equal(
        own.targets, batch.originals if every else batch.originals.gather(1, own.positions)
    )
    assert (own.classified.sum() > own.weights.sum()) == every
