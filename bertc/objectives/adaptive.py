"""The softmax over clusters of tokens, the rarer of which are seldom asked.

Weights come by the names of ``heads``. Axes: n states, m of them, h hidden, e width of a cluster, c
clusters but the first, v token ids, w those of one cluster.
"""

from collections.abc import Mapping

import torch
import torch.nn.functional as F

from bertc.ir.network.encoder import Encoder
from bertc.ir.network.table import AdaptiveTable, Cluster
from bertc.objectives.cross_entropy import vocabulary_loss

Weights = Mapping[str, torch.Tensor]


def adaptive_loss(
    encoder: Encoder, hidden_nh: torch.Tensor, targets_n: torch.Tensor, weights: Weights, name: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """-log p of each target in fp32 (n,), and whether it comes first (n,).

    A token of the first cluster comes first if no other of it is likelier, a rarer one if its
    cluster is on top and it is on top there.

    The first cluster and one entry for each other compete over all states; then each of the others
    judges the states whose target is in it, so many as there are (Grave et al. 2017, section 4).
    """
    clusters = _clusters(encoder)
    scorer = _Scorer(encoder, weights, name, hidden_nh.dtype)
    first_n = targets_n
    for number, cluster in enumerate(clusters[1:]):
        inside_n = (targets_n >= cluster.low) & (targets_n < cluster.high)
        first_n = torch.where(inside_n, clusters[0].high + number, first_n)
    losses_n, hits_n, _ = vocabulary_loss(
        scorer.narrow(hidden_nh, 0), *scorer.first(), first_n, tokens=clusters[0].size
    )
    for number, cluster in enumerate(clusters[1:], 1):
        at_m = members(targets_n, cluster)
        own_me = scorer.narrow(hidden_nh.index_select(0, at_m), number)
        targets_m = targets_n.index_select(0, at_m) - cluster.low
        own_m, right_m, _ = vocabulary_loss(own_me, *scorer.own(number), targets_m)
        losses_n = losses_n.index_add(0, at_m, own_m)
        hits_n = hits_n.index_copy(0, at_m, hits_n.index_select(0, at_m) & right_m)
    return losses_n, hits_n


def members(targets_n: torch.Tensor, cluster: Cluster) -> torch.Tensor:
    """Which targets are in a cluster (m,); a device is waited for, since m is for it to say."""
    return ((targets_n >= cluster.low) & (targets_n < cluster.high)).nonzero()[:, 0]


def adaptive_logits(
    encoder: Encoder, hidden_nh: torch.Tensor, weights: Weights, name: str
) -> torch.Tensor:
    """log p of every token (n, v)."""
    clusters, scorer = _clusters(encoder), _Scorer(encoder, weights, name, hidden_nh.dtype)
    size = clusters[0].size
    all_n = F.linear(scorer.narrow(hidden_nh, 0), *scorer.first()).log_softmax(1)
    found = [all_n[:, :size]]
    for number in range(1, len(clusters)):
        own_nw = F.linear(scorer.narrow(hidden_nh, number), *scorer.own(number)).log_softmax(1)
        found.append(all_n[:, size + number - 1, None] + own_nw)
    return torch.cat(found, dim=1)


def _clusters(encoder: Encoder) -> tuple[Cluster, ...]:
    return encoder.table.clusters(encoder.vocab_size, encoder.embedding)


class _Scorer:
    """Tables, biases and maps of the clusters, in the dtype of the states."""

    def __init__(self, encoder: Encoder, weights: Weights, name: str, dtype: torch.dtype) -> None:
        self._clusters = _clusters(encoder)
        self._weights, self._name, self._dtype = weights, name, dtype
        assert isinstance(encoder.table, AdaptiveTable), "the checks see to that"
        self._narrows = encoder.table.narrows

    def narrow(self, hidden_mh: torch.Tensor, number: int) -> torch.Tensor:
        """States (m, h) in the width of a cluster (m, e)."""
        if not self._narrows:
            return hidden_mh
        map_he = self._get(f"token.{number}.project" if number else f"{self._name}.project")
        return hidden_mh @ map_he

    def own(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The table (w, e) of a cluster and its biases (w,)."""
        low, high, _ = self._clusters[number]
        table_we = self._get(f"token.{number}") if self._narrows else self._table()[low:high]
        return table_we, self._weights[f"{self._name}.bias"][low:high].to(self._dtype)

    def first(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Those of the first cluster, and of an entry for each other."""
        table_we, bias_w = self.own(0)
        bias_c = self._weights[f"{self._name}.cluster.bias"].to(self._dtype)
        table_ce = self._get(f"{self._name}.cluster")
        return torch.cat([table_we, table_ce]), torch.cat([bias_w, bias_c])

    def _get(self, name: str) -> torch.Tensor:
        return self._weights[f"{name}.weight"].to(self._dtype)

    def _table(self) -> torch.Tensor:
        return self._weights["token"].to(self._dtype)
