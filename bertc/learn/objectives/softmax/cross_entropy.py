"""Cross entropy over the vocabulary without a second copy of the logits, in clusters if adaptive.

An adaptive softmax has clusters of tokens by frequency, the rare ones evaluated only where needed.

Axes: n predictions or states, m states of one cluster, h hidden, e embedding or width of a cluster,
c clusters but the first, v token ids, w token ids of one cluster.
"""

import math
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from bertc.model import AdaptiveTokenHead, BodyModule
from bertc.model.embeddings import AdaptiveEmbedding
from bertc.model.native.kernels import Kernels, kernels_for

CPU_CHUNK = 2**19  # logits at once in fp32: 2 MB, about the size of a core's second cache
GPU_CHUNK = 2**24  # 64 MiB: what a GPU's second cache holds about, and two are there at once
BLOCK = 128  # token ids among which the last part of a draw chooses
CPU_MULTIPLE = 1
GPU_MULTIPLE = 128  # rows of logits begin on 128 bytes or more, as the fastest products need them


def vocabulary_loss(
    x_ne: Float[Tensor, "n e"],
    table_ve: Float[Tensor, "v e"],
    bias_v: Float[Tensor, "v"],
    targets_n: Int[Tensor, "n"],
    chances_n: Float[Tensor, "n"] | None = None,
    tokens: int = 0,
) -> tuple[Float[Tensor, "n"], Bool[Tensor, "n"], Int[Tensor, "n"] | None]:
    """-log softmax(x table^T + bias)[target] in nats, fp32 (n,), and hits (n,): target on top.

    ``chances``, uniform in [0, 1), adds a token id sampled from each softmax (n,), without
    gradient.

    ``x`` and ``table`` are in the compute dtype, as are their products; sums and exponentials are
    in fp32. If only the first ``tokens`` entries are real, the target is top if no real token
    scores higher. A compiler fuses the plain form; otherwise logits are overwritten by their
    gradient chunk by chunk, which costs little more than the matrix products.
    """
    multiple = GPU_MULTIPLE if x_ne.device.type == "cuda" else CPU_MULTIPLE
    if extra := -len(bias_v) % multiple:  # the chance of a row of padding is exactly 0
        table_ve = F.pad(table_ve, (0, 0, 0, extra))
        bias_v = F.pad(bias_v, (0, extra), value=-math.inf)
    if torch.compiler.is_compiling():
        logits_nv = F.linear(x_ne, table_ve).float() + bias_v.float()
        losses_n = F.cross_entropy(logits_nv, targets_n, reduction="none")
        drawn_n = None if chances_n is None else draw(logits_nv.detach().softmax(1), chances_n)
        return losses_n, _best(logits_nv, targets_n, tokens) == targets_n, drawn_n
    losses_n, hits_n, drawn_n = _VocabularyLoss.apply(  # type: ignore[no-untyped-call]
        x_ne, table_ve, bias_v, targets_n, (chances_n, tokens, kernels_for(x_ne, bias_v))
    )
    return losses_n, hits_n, drawn_n


def draw(weights_nv: Float[Tensor, "n v"], chances_n: Float[Tensor, "n"]) -> Int[Tensor, "n"]:
    """Sample ids (n,) in proportion to weights (n, v), by inverting their cumulative sum.

    One random number per row picks a block of ids, then the id in it, so all weights are read once,
    by a plain sum, and cumulative sums are short. They are of integers, which sum alike in any
    order. The highest weight of a row is about 1, or its weights sum to about 1.
    """
    n, v = weights_nv.shape
    blocks, rest = divmod(v, BLOCK)
    sums_nc = _whole(weights_nv[:, : blocks * BLOCK].reshape(n, blocks, BLOCK).sum(2))
    if rest:
        sums_nc = torch.cat([sums_nc, _whole(weights_nv[:, -rest:].sum(1, keepdim=True))], dim=1)
    until_nc = sums_nc.cumsum(1)
    wanted_n1 = (chances_n[:, None].double() * until_nc[:, -1:]).long()
    block_n1 = (until_nc <= wanted_n1).sum(1, keepdim=True).clamp(max=until_nc.shape[1] - 1)
    wanted_n1 = wanted_n1 - (until_nc - sums_nc).gather(1, block_n1)
    ids_nw = block_n1 * BLOCK + torch.arange(BLOCK, device=weights_nv.device)
    own_nw = _whole(weights_nv.gather(1, ids_nw.clamp(max=v - 1)))
    own_nw = torch.where(ids_nw < v, own_nw, 0)
    # Rounding may exceed the block's sum: then take its last token with a weight.
    last_n1 = torch.where(own_nw > 0, ids_nw, 0).amax(1, keepdim=True)
    within_n1 = (own_nw.cumsum(1) <= wanted_n1).sum(1, keepdim=True)
    return (block_n1 * BLOCK + within_n1).minimum(last_n1)[:, 0]


def _whole(weights: Float[Tensor, "*any"]) -> Int[Tensor, "*any"]:
    """Weights up to about 1 as multiples of 2^-39, so that 2^24 fit an int64; any shape."""
    return (weights.double() * 2.0**39).long()


def _best(
    logits_nv: Float[Tensor, "n v"], targets_n: Int[Tensor, "n"], tokens: int
) -> Int[Tensor, "n"]:
    """Index of the highest entry (n,), restricted to real tokens if the target is one."""
    best_n = logits_nv.argmax(1)
    if not tokens:
        return best_n
    return torch.where(targets_n < tokens, logits_nv[:, :tokens].argmax(1), best_n)


How = tuple[Tensor | None, int, Kernels | None]
"""Chances to sample by, the number of real tokens, and kernels if there are any."""


class _VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x_ne: Tensor, table_ve: Tensor, bias_v: Tensor, targets_n: Tensor, how: How
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        chances_n, tokens, kernels = how
        logits_nv = F.linear(x_ne, table_ve)
        bias_v = bias_v.float()
        differentiated = any(ctx.needs_input_grad)
        if kernels:
            results = kernels.vocabulary_loss(logits_nv, bias_v, targets_n, chances_n, tokens)
            losses_n, hits_n, drawn_n = results
        else:  # in chunks; if differentiated the logits become their own gradient
            losses_n = torch.empty(len(logits_nv), device=logits_nv.device)
            hits_n = torch.empty_like(targets_n, dtype=torch.bool)
            drawn_n = None if chances_n is None else torch.empty_like(targets_n)
            chunk = CPU_CHUNK if logits_nv.device.type == "cpu" else GPU_CHUNK
            rows = max(1, chunk // len(bias_v))
            for start in range(0, len(logits_nv), rows):
                part = slice(start, start + rows)
                target_n1 = targets_n[part, None]
                z_nv = logits_nv[part].float() + bias_v
                top_n1, best_n1 = z_nv.max(1, keepdim=True)
                if tokens:
                    best_n1 = _best(z_nv, target_n1[:, 0], tokens)[:, None]
                hits_n[part] = (best_n1 == target_n1)[:, 0]
                right_n1 = z_nv.gather(1, target_n1)
                z_nv.sub_(top_n1).exp_()
                total_n1 = z_nv.sum(1, keepdim=True)
                if chances_n is not None and drawn_n is not None:
                    drawn_n[part] = draw(z_nv, chances_n[part])
                losses_n[part] = (total_n1.log() + top_n1 - right_n1)[:, 0]
                if differentiated:
                    z_nv.mul_(total_n1.reciprocal())
                    z_nv.scatter_add_(1, target_n1, torch.full_like(right_n1, -1.0))
                    logits_nv[part] = z_nv
        ctx.save_for_backward(x_ne, table_ve, logits_nv if differentiated else None)
        ctx.mark_non_differentiable(*(t for t in (hits_n, drawn_n) if t is not None))
        return losses_n, hits_n, drawn_n

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, upstream_n: Float[Tensor, "n"], *_: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        # softmax - one-hot of each prediction, unscaled: the smaller factor is scaled.
        x_ne, table_ve, slope_nv = ctx.saved_tensors
        scale_n1 = upstream_n[:, None].to(slope_nv.dtype)
        x_grad_ne = (slope_nv @ table_ve) * scale_n1
        learns = ctx.needs_input_grad[1]  # not the table of a frozen network
        table_grad_ve = slope_nv.t() @ (x_ne * scale_n1) if learns else None
        bias_grad_v = (slope_nv.t() @ scale_n1)[:, 0]
        return x_grad_ne, table_grad_ve, bias_grad_v, None, None


def adaptive_loss(
    scorer: "Scorer", hidden_nh: Float[Tensor, "n h"], targets_n: Int[Tensor, "n"]
) -> tuple[Float[Tensor, "n"], Bool[Tensor, "n"]]:
    """-log p of each target in nats, fp32 (n,), and True where the target is the top token (n,).

    Top means: for a token of the first cluster, the highest score in it; for a rarer token, the
    highest cluster score and the highest score within that cluster.

    All states are scored over the first cluster and one entry per other cluster; each other cluster
    then scores only the states whose target it holds (Grave et al. 2017, section 4). How many those
    are depends on the data, so this synchronises, once.
    """
    clusters = scorer.clusters
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


def adaptive_logits(scorer: "Scorer", hidden_nh: Float[Tensor, "n h"]) -> Float[Tensor, "n v"]:
    """log p of every token (n, v), in nats."""
    size = scorer.clusters[0].size
    all_n = F.linear(scorer.narrow(hidden_nh, 0), *scorer.first()).log_softmax(1)
    logs = [all_n[:, :size]]
    for number in range(1, len(scorer.clusters)):
        own_nw = F.linear(scorer.narrow(hidden_nh, number), *scorer.own(number)).log_softmax(1)
        logs.append(all_n[:, size + number - 1, None] + own_nw)
    return torch.cat(logs, dim=1)


class Scorer:
    """Weights of the clusters, cast to the dtype of the states."""

    def __init__(self, head: AdaptiveTokenHead, network: BodyModule, dtype: torch.dtype) -> None:
        self.clusters = network.node.token_head.clusters
        self._head, self._tokens, self._dtype = head, network.tokens, dtype

    def narrow(self, hidden_mh: Float[Tensor, "m h"], number: int) -> Float[Tensor, "m e"]:
        """Project states (m, h) to the width of a cluster (m, e)."""
        project = self._head.project
        if number and isinstance(self._tokens, AdaptiveEmbedding):
            project = self._tokens.part(number).project
        return hidden_mh if project is None else hidden_mh @ project.weight.to(self._dtype)

    def own(self, number: int) -> tuple[Float[Tensor, "w e"], Float[Tensor, "w"]]:
        """Table (w, e) and bias (w,) of a cluster."""
        low, high, _ = self.clusters[number]
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
