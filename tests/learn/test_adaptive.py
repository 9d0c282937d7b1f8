"""The softmax over clusters against one over all tokens, made from the same weights."""

import pytest
import torch

from bertc.api import resolve
from bertc.learn.objectives.softmax.adaptive import adaptive_logits, adaptive_loss
from tests.model.material import drawn

BASE = "objective=clm layers=1 hidden=16 heads=2 segments=0 vocab=words(90) seq=8 "
KINDS = [
    "table=adaptive([20, 50], div=1)",
    "table=adaptive([20, 50])",
    "table=adaptive([10, 30, 60], div=2)",
]


def plain(model, hidden_nh):
    """log p of every token (n, v), by the definition, cluster after cluster."""
    encoder, weights = model.resolved.encoder, dict(model.named_parameters())
    table = encoder.table
    clusters, token = table.clusters(90, 16), "encoder.embeddings.token"

    def scores(number, low, high):
        if table.div == 1:
            return hidden_nh @ weights[f"{token}.weight"][low:high].T
        own = "heads.clm.project" if number == 0 else f"{token}.{number}.project"
        return hidden_nh @ weights[f"{own}.weight"] @ weights[f"{token}.{number}.weight"].T

    bias = weights["heads.clm.bias"]
    first = hidden_nh
    if table.div > 1:
        first = hidden_nh @ weights["heads.clm.project.weight"]
    choice = first @ weights["heads.clm.cluster.weight"].T + weights["heads.clm.cluster.bias"]
    found = []
    for number, (low, high, _) in enumerate(clusters):
        own = scores(number, low, high) + bias[low:high]
        if number == 0:
            total = torch.cat([own, choice], dim=1).logsumexp(1, keepdim=True)
            found.append(own - total)
        else:
            found.append(own.log_softmax(1) + choice[:, number - 1, None] - total)
    return torch.cat(found, dim=1)


@pytest.mark.parametrize("most", [90, 10])  # all tokens, or of one cluster alone
@pytest.mark.parametrize("extra", KINDS)
def test_the_loss_and_its_gradients_are_those_of_a_plain_softmax(extra, most):
    model = drawn(resolve(BASE + extra), 0.3)
    hidden_nh = torch.randn(200, 16, requires_grad=True)
    targets_n = torch.arange(200) % most
    encoder, token = model.resolved.encoder, model.encoder.embeddings.token
    head = model.heads["clm"]
    losses_n, hits_n = adaptive_loss(encoder, hidden_nh, targets_n, head, token)
    logs_nv = plain(model, hidden_nh)
    expected_n = -logs_nv.gather(1, targets_n[:, None])[:, 0]
    torch.testing.assert_close(logs_nv.exp().sum(1), torch.ones(200))
    torch.testing.assert_close(losses_n, expected_n)
    torch.testing.assert_close(adaptive_logits(encoder, hidden_nh, head, token), logs_nv)
    wanted = [hidden_nh, *(w for n, w in model.named_parameters() if "heads" in n or "token" in n)]
    options = {"allow_unused": True, "retain_graph": True}
    for one, other in zip(
        torch.autograd.grad(losses_n.sum(), wanted, **options),
        torch.autograd.grad(expected_n.sum(), wanted, **options),
        strict=True,
    ):
        if one is not None or most == 90:
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    size = encoder.table.cutoffs[0]
    frequent_n = targets_n < size
    expected_n = logs_nv[:, :size].argmax(1) == targets_n
    assert torch.equal(hits_n[frequent_n], expected_n[frequent_n])


@pytest.mark.parametrize("extra", KINDS)
def test_vectors_are_scaled_and_mapped_by_cluster(extra):
    model = drawn(resolve(BASE + extra), 0.3)
    encoder, weights = model.resolved.encoder, dict(model.named_parameters())
    ids = torch.arange(90)[None]
    found = model.encoder.embeddings.token(ids)[0]
    for number, (low, high, width) in enumerate(encoder.table.clusters(90, 16)):
        name = "encoder.embeddings.token"
        if encoder.table.div == 1:
            expected = weights[f"{name}.weight"][low:high]
        else:
            assert weights[f"{name}.{number}.weight"].shape == (high - low, width)
            project = weights[f"{name}.{number}.project.weight"]
            expected = weights[f"{name}.{number}.weight"] @ project.T
        torch.testing.assert_close(found[low:high], expected)
