"""Adaptive softmax: token clusters by frequency, the rare ones evaluated only where needed.

Axes: n states, m states of one cluster, h hidden, e width of a cluster, c clusters but the first, v
token ids, w token ids of one cluster.
"""

from itertools import accumulate

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bertc.ir.network.body_node import BodyNode
from bertc.learn.objectives.softmax.cross_entropy import vocabulary_loss
from bertc.model.embeddings import AdaptiveEmbedding, Tokens
from bertc.model.heads import AdaptiveTokenHead


def adaptive_loss(
    encoder: BodyNode,
    hidden_nh: Float[Tensor, "n h"],
    targets_n: Int[Tensor, "n"],
    head: AdaptiveTokenHead,
    tokens: Tokens,
) -> tuple[Float[Tensor, "n"], Bool[Tensor, "n"]]:
    """-log p of each target in nats, fp32 (n,), and True where the target is the top token (n,).

    Top means: for a token of the first cluster, the highest score in it; for a rarer token, the
    highest cluster score and the highest score within that cluster.

    All states are scored over the first cluster and one entry per other cluster; each other cluster
    then scores only the states whose target it holds (Grave et al. 2017, section 4). How many those
    are depends on the data, so this synchronises, once.
    """
    clusters = encoder.token_head.clusters
    scorer = _Scorer(encoder, head, tokens, hidden_nh.dtype)
    cluster_n = torch.stack([targets_n >= cluster.low for cluster in clusters[1:]]).sum(0)
    first_n = torch.where(cluster_n > 0, clusters[0].high + cluster_n - 1, targets_n)
    losses_n, hits_n, _ = vocabulary_loss(
        scorer.narrow(hidden_nh, 0), *scorer.first(), first_n, tokens=clusters[0].size
    )
    for number, at_m in enumerate(members(cluster_n, len(clusters))[1:], 1):
        own_me = scorer.narrow(hidden_nh.index_select(0, at_m), number)
        targets_m = targets_n.index_select(0, at_m) - clusters[number].low
        own_m, right_m, _ = vocabulary_loss(own_me, *scorer.own(number), targets_m)
        losses_n = losses_n.index_add(0, at_m, own_m)
        hits_n = hits_n.index_copy(0, at_m, hits_n.index_select(0, at_m) & right_m)
    return losses_n, hits_n


def members(cluster_n: Int[Tensor, "n"], clusters: int) -> list[Int[Tensor, "_"]]:
    """Indices of the states of each cluster, ascending; synchronises once for all clusters."""
    order_n = cluster_n.argsort(stable=True)
    sizes = torch.stack([(cluster_n == number).sum() for number in range(clusters)]).tolist()
    firsts = accumulate(sizes, initial=0)
    return [order_n[first : first + size] for first, size in zip(firsts, sizes, strict=False)]


def adaptive_logits(
    encoder: BodyNode, hidden_nh: Float[Tensor, "n h"], head: AdaptiveTokenHead, tokens: Tokens
) -> Float[Tensor, "n v"]:
    """log p of every token (n, v), in nats."""
    clusters, scorer = encoder.token_head.clusters, _Scorer(encoder, head, tokens, hidden_nh.dtype)
    size = clusters[0].size
    all_n = F.linear(scorer.narrow(hidden_nh, 0), *scorer.first()).log_softmax(1)
    logs = [all_n[:, :size]]
    for number in range(1, len(clusters)):
        own_nw = F.linear(scorer.narrow(hidden_nh, number), *scorer.own(number)).log_softmax(1)
        logs.append(all_n[:, size + number - 1, None] + own_nw)
    return torch.cat(logs, dim=1)


class _Scorer:
    """Weights of the clusters, cast to the dtype of the states."""

    def __init__(
        self, encoder: BodyNode, head: AdaptiveTokenHead, tokens: Tokens, dtype: torch.dtype
    ) -> None:
        self._clusters = encoder.token_head.clusters
        self._head, self._tokens, self._dtype = head, tokens, dtype

    def narrow(self, hidden_mh: Float[Tensor, "m h"], number: int) -> Float[Tensor, "m e"]:
        """Project states (m, h) to the width of a cluster (m, e)."""
        project = self._head.project
        if number and isinstance(self._tokens, AdaptiveEmbedding):
            project = self._tokens.part(number).project
        return hidden_mh if project is None else hidden_mh @ project.weight.to(self._dtype)

    def own(self, number: int) -> tuple[Float[Tensor, "w e"], Float[Tensor, "w"]]:
        """Table (w, e) and bias (w,) of a cluster."""
        low, high, _ = self._clusters[number]
        if isinstance(self._tokens, AdaptiveEmbedding):
            table_we = self._tokens.part(number).weight.to(self._dtype)
        else:
            table_we = self._tokens.weight.to(self._dtype)[low:high]
        return table_we, self._head.bias[low:high].to(self._dtype)

    def first(self) -> tuple[Float[Tensor, "w e"], Float[Tensor, "w"]]:
        """Table (w, e) and bias (w,) of the first cluster, with an entry for each other cluster."""
        table_we, bias_w = self.own(0)
        cluster = self._head.cluster
        assert cluster.bias is not None, "the first cluster has a bias"
        bias_c, table_ce = cluster.bias.to(self._dtype), cluster.weight.to(self._dtype)
        return torch.cat([table_we, table_ce]), torch.cat([bias_w, bias_c])
