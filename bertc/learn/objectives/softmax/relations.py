"""Scaled products between the tokens of a row beside a teacher's: attention, and other relations.

Some rows at a time: a matrix of tokens by tokens for each head is more than the states it is made
of.

Axes: b rows, p some of them, q queries, k keys, w widths of all heads, n heads, d width of a head.
"""

from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from bertc.ir.blocks import TOKEN_PAIRS
from bertc.model.attention.attend import join_heads, split_heads

CPU_SCORES, GPU_SCORES = TOKEN_PAIRS
"""Scores of a network at once: on a CPU as many as its caches hold."""
ABSENT = -1e4
"""The score of a key that does not count: its chance is 0, and finite products with it too."""


class Factors(NamedTuple):
    """The two factors of scaled products, all heads side by side."""

    queries: Float[Tensor, "b q w"]
    keys: Float[Tensor, "b k w"]

    def of_heads(self, part: slice, heads: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The factors of some rows, (p, n, q, d) over sqrt(d) and (p, n, k, d)."""
        queries_pnqd, keys_pnkd = (split_heads(factor[part].to(dtype), heads) for factor in self)
        return queries_pnqd * queries_pnqd.shape[3] ** -0.5, keys_pnkd


class Relation(NamedTuple):
    """Comparison of the products of ``heads`` heads, by softmaxes or by scores.

    ``mse`` is averaged over keys. Scores of ``zero_below`` and less count as 0, unless it is 0.
    """

    loss: Literal["kl", "mse"]
    of: Literal["scores", "probabilities"]
    heads: int
    zero_below: float = 0.0


def relation_loss(
    mine: Factors,
    taught: Factors,
    allowed: Bool[Tensor, "#b 1 #q k"],
    weights_bq: Float[Tensor, "b q"],
    how: Relation,
) -> Tensor:
    """The summed loss (0-d) of weighted queries over the keys ``allowed``, averaged over heads."""
    loss: Tensor = _Relation.apply(  # type: ignore[no-untyped-call]
        *mine, *taught, allowed, weights_bq.float(), how
    )
    return loss


def compared(
    own_pnqk: Float[Tensor, "p n q k"],
    taught_pnqk: Float[Tensor, "p n q k"],
    allowed: Bool[Tensor, "#p 1 #q k"],
    how: Relation,
) -> tuple[Float[Tensor, "p n q"], Float[Tensor, "p n q k"]]:
    """The loss of each query in each head, and its slope by the network's own scores."""
    if how.of == "scores":
        lowest = how.zero_below or -torch.inf
        left_out = own_pnqk <= lowest
        apart_pnqk = own_pnqk.masked_fill(left_out, 0.0)
        apart_pnqk.sub_(taught_pnqk.masked_fill(taught_pnqk <= lowest, 0.0))
        losses_pnq, slope_pnqk = _mean_square(apart_pnqk, allowed)
        return losses_pnq, slope_pnqk.masked_fill_(left_out, 0.0)
    log_own_pnqk, log_taught_pnqk = (
        scores.masked_fill(~allowed, ABSENT).log_softmax(3) for scores in (own_pnqk, taught_pnqk)
    )
    chances_pnqk, told_pnqk = log_own_pnqk.exp(), log_taught_pnqk.exp()
    match how.loss:
        case "kl":
            losses_pnq = (log_taught_pnqk - log_own_pnqk).mul_(told_pnqk).sum(3)
            return losses_pnq, chances_pnqk.sub_(told_pnqk)
        case "mse":
            losses_pnq, slope_pnqk = _mean_square(chances_pnqk - told_pnqk, allowed)
            slope_pnqk.mul_(chances_pnqk)
            return losses_pnq, slope_pnqk.sub_(chances_pnqk * slope_pnqk.sum(3, keepdim=True))


def _mean_square(
    apart_pnqk: Float[Tensor, "p n q k"], allowed: Bool[Tensor, "#p 1 #q k"]
) -> tuple[Float[Tensor, "p n q"], Float[Tensor, "p n q k"]]:
    """The mean square at the keys that are allowed, and its slope, in place of the differences."""
    share = allowed / allowed.sum(3, keepdim=True)
    losses_pnq = apart_pnqk.square().mul_(share).sum(3)
    return losses_pnq, apart_pnqk.mul_(2).mul_(share)


class _Relation(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries_bqw: Float[Tensor, "b q w"],
        keys_bkw: Float[Tensor, "b k w"],
        taught_bqv: Float[Tensor, "b q v"],
        taught_bkv: Float[Tensor, "b k v"],
        allowed: Bool[Tensor, "#b 1 #q k"],
        weights_bq: Float[Tensor, "b q"],
        how: Relation,
    ) -> Tensor:
        mine, taught = Factors(queries_bqw, keys_bkw), Factors(taught_bqv, taught_bkv)
        differentiated, dtype = any(ctx.needs_input_grad), queries_bqw.dtype
        to_queries_bqw = torch.empty_like(queries_bqw) if differentiated else None
        to_keys_bkw = torch.empty_like(keys_bkw) if differentiated else None
        total = queries_bqw.new_zeros((), dtype=torch.float32)
        scores_a_row = how.heads * queries_bqw.shape[1] * keys_bkw.shape[1]
        at_once = CPU_SCORES if queries_bqw.device.type == "cpu" else GPU_SCORES
        rows = max(1, at_once // scores_a_row)
        for start in range(0, len(queries_bqw), rows):
            part = slice(start, start + rows)
            query_pnqd, key_pnkd = mine.of_heads(part, how.heads, dtype)
            told_pnqd, told_pnkd = taught.of_heads(part, how.heads, dtype)
            losses_pnq, slope_pnqk = compared(
                (query_pnqd @ key_pnkd.mT).float(),
                (told_pnqd @ told_pnkd.mT).float(),
                allowed if len(allowed) == 1 else allowed[part],
                how,
            )
            share_p1q = weights_bq[part, None] / how.heads
            total += (losses_pnq * share_p1q).sum()
            if to_queries_bqw is None or to_keys_bkw is None:
                continue
            slope_pnqk = slope_pnqk.mul_(share_p1q[..., None]).to(dtype)
            scale = query_pnqd.shape[3] ** -0.5
            to_queries_bqw[part] = join_heads((slope_pnqk @ key_pnkd) * scale)
            to_keys_bkw[part] = join_heads(slope_pnqk.mT @ query_pnqd)
            del slope_pnqk  # or it stands beside the scores of the next
        ctx.save_for_backward(to_queries_bqw, to_keys_bkw)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        to_queries_bqw, to_keys_bkw = ctx.saved_tensors
        upstream = upstream.to(to_queries_bqw.dtype)
        return to_queries_bqw * upstream, to_keys_bkw * upstream, None, None, None, None, None
