"""Cross entropy over the vocabulary without a second copy of the logits.

Axes: n predictions, e embedding, v token ids.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from bertc.model.native import Kernels, kernels_for

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
    on_gpu = x_ne.device.type == "cuda"
    table_ve, bias_v = _pad_rows(table_ve, bias_v, GPU_MULTIPLE if on_gpu else CPU_MULTIPLE)
    if torch.compiler.is_compiling():
        logits_nv = F.linear(x_ne, table_ve).float() + bias_v.float()
        losses_n = F.cross_entropy(logits_nv, targets_n, reduction="none")
        drawn_n = None
        if chances_n is not None:
            drawn_n = draw(logits_nv.detach().softmax(1), chances_n)
        return losses_n, _best(logits_nv, targets_n, tokens) == targets_n, drawn_n
    losses_n, hits_n, drawn_n = _VocabularyLoss.apply(  # type: ignore[no-untyped-call]
        x_ne, table_ve, bias_v, targets_n, chances_n, tokens, kernels_for(x_ne, bias_v)
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
    drawn_n1 = (block_n1 * BLOCK + within_n1).minimum(last_n1)
    return drawn_n1[:, 0]


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


def _pad_rows(
    table_ve: Float[Tensor, "v e"], bias_v: Float[Tensor, "v"], multiple: int
) -> tuple[Float[Tensor, "w e"], Float[Tensor, "w"]]:
    """Pad both to a multiple of rows; padding has probability exactly 0."""
    extra = -len(bias_v) % multiple
    if not extra:
        return table_ve, bias_v
    return F.pad(table_ve, (0, 0, 0, extra)), F.pad(bias_v, (0, extra), value=-math.inf)


class _VocabularyLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_ne: Float[Tensor, "n e"],
        table_ve: Float[Tensor, "v e"],
        bias_v: Float[Tensor, "v"],
        targets_n: Int[Tensor, "n"],
        chances_n: Float[Tensor, "n"] | None,
        tokens: int,
        kernels: Kernels | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        logits_nv = F.linear(x_ne, table_ve)
        bias_v = bias_v.float()
        differentiated = any(ctx.needs_input_grad)
        if kernels is None:
            results = _by_chunks(logits_nv, bias_v, targets_n, chances_n, tokens, differentiated)
        else:
            results = kernels.vocabulary_loss(logits_nv, bias_v, targets_n, chances_n, tokens)
        losses_n, hits_n, drawn_n = results
        slope_nv = logits_nv if differentiated else None
        ctx.save_for_backward(x_ne, table_ve, slope_nv)
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
        return x_grad_ne, table_grad_ve, bias_grad_v, None, None, None, None


def _by_chunks(
    logits_nv: Float[Tensor, "n v"],
    bias_v: Float[Tensor, "v"],
    targets_n: Int[Tensor, "n"],
    chances_n: Float[Tensor, "n"] | None,
    tokens: int,
    differentiated: bool,
) -> tuple[Float[Tensor, "n"], Bool[Tensor, "n"], Int[Tensor, "n"] | None]:
    """Losses, hits and samples; if ``differentiated`` the logits become their own gradient."""
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
    return losses_n, hits_n, drawn_n
