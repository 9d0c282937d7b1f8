"""Losses beside a teacher's: of logits, and of scaled products between the tokens of a row.

Those are attention and other relations. Some predictions or rows at a time: all logits, or matrices
of tokens by tokens for each head, are more than the states they are made of.

Axes: n predictions, e embedding, f embedding of a teacher, v token ids or labels; b rows, p some of
them, q queries, k keys, w widths of all heads, n heads, d width of a head.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from bertc.ir.blocks import SOFT_TARGETS, TOKEN_PAIRS
from bertc.model.attention.attend import join_heads, split_heads


class Logits(NamedTuple):
    """Logits on demand: features times a table, and a bias."""

    features: Float[Tensor, "n e"]
    table: Float[Tensor, "v e"]
    bias: Float[Tensor, "v"]

    def of(self, part: slice) -> Float[Tensor, "p v"]:
        """The logits of some predictions, in fp32."""
        products = F.linear(self.features[part], self.table.to(self.features.dtype))
        return products.float().add_(self.bias.float())


class Comparison(NamedTuple):
    """Kind, temperature and factor of the loss of one prediction."""

    loss: Literal["kl", "ce", "mse"]
    temperature: float
    factor: float


def soft_target_loss(
    mine: Logits,
    taught: Sequence[Logits],
    shares: Sequence[float],
    weights_n: Float[Tensor, "n"],
    how: Comparison,
) -> Tensor:
    """The summed loss (0-d) of weighted predictions against the mean of teachers."""
    if not torch.is_grad_enabled():  # a parameter would ask for its gradient all the same
        mine = Logits(*(logits.detach() for logits in mine))
    inputs = *mine, weights_n.float(), how, tuple(shares), *chain(*taught)
    return cast(Tensor, _SoftTargets.apply(*inputs))  # type: ignore[no-untyped-call]


def compared(
    own_nv: Float[Tensor, "n v"],
    taught: Iterable[Float[Tensor, "n v"]],
    shares: Sequence[float],
    how: Comparison,
) -> tuple[Float[Tensor, "n"], Float[Tensor, "n v"]]:
    """The loss of each prediction, and its slope by the student's logits."""
    if how.loss == "mse":
        apart_nv = own_nv - _mean(taught, shares)
        return how.factor * apart_nv.square().sum(1), 2 * how.factor * apart_nv
    told_nv = _mean(((logits / how.temperature).softmax(1) for logits in taught), shares)
    log_own_nv = (own_nv / how.temperature).log_softmax(1)
    slope_nv = log_own_nv.exp().sub_(told_nv).mul_(how.factor / how.temperature)
    losses_n = -(told_nv * log_own_nv).sum(1)
    if how.loss == "kl":
        losses_n = losses_n + torch.special.xlogy(told_nv, told_nv).sum(1)
    return how.factor * losses_n, slope_nv


def _mean(tensors: Iterable[Tensor], shares: Sequence[float]) -> Tensor:
    if len(shares) == 1:
        (only,) = tensors
        return only
    weighted = (share * tensor for share, tensor in zip(shares, tensors, strict=True))
    total = next(weighted)
    for tensor in weighted:
        total += tensor
    return total / sum(shares)


class _SoftTargets(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_ne: Float[Tensor, "n e"],
        table_ve: Float[Tensor, "v e"],
        bias_v: Float[Tensor, "v"],
        weights_n: Float[Tensor, "n"],
        how: Comparison,
        shares: tuple[float, ...],
        *teachers: Tensor,
    ) -> Tensor:
        mine, dtype = Logits(x_ne, table_ve, bias_v), x_ne.dtype
        taught = [Logits(*teachers[first : first + 3]) for first in range(0, len(teachers), 3)]
        differentiated = any(ctx.needs_input_grad)
        x_grad_ne = torch.empty_like(x_ne) if differentiated else None
        table_grad_ve = torch.zeros_like(table_ve, dtype=torch.float32) if differentiated else None
        bias_grad_v = torch.zeros_like(bias_v, dtype=torch.float32) if differentiated else None
        total = x_ne.new_zeros((), dtype=torch.float32)
        rows = max(1, SOFT_TARGETS[x_ne.device.type != "cpu"] // len(bias_v))
        for start in range(0, len(x_ne), rows):
            part = slice(start, start + rows)
            taught_pv = (logits.of(part) for logits in taught)
            losses_p, slope_pv = compared(mine.of(part), taught_pv, shares, how)
            total += losses_p @ weights_n[part]
            if x_grad_ne is None or table_grad_ve is None or bias_grad_v is None:
                continue
            slope_pv.mul_(weights_n[part, None])
            bias_grad_v += slope_pv.sum(0)
            slope_pv = slope_pv.to(dtype)
            x_grad_ne[part] = slope_pv @ table_ve.to(dtype)
            table_grad_ve += slope_pv.t() @ x_ne[part]
            del slope_pv  # or it stands beside the logits of the next
        ctx.save_for_backward(x_grad_ne, table_grad_ve, bias_grad_v)
        ctx.dtypes = table_ve.dtype, bias_v.dtype
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        x_grad_ne, table_grad_ve, bias_grad_v = ctx.saved_tensors
        table_dtype, bias_dtype = ctx.dtypes
        return (
            x_grad_ne * upstream.to(x_grad_ne.dtype),
            (table_grad_ve * upstream).to(table_dtype),
            (bias_grad_v * upstream).to(bias_dtype),
            *(None for _ in ctx.needs_input_grad[3:]),
        )


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
    inputs = *mine, *taught, allowed, weights_bq.float(), how
    return cast(Tensor, _Relation.apply(*inputs))  # type: ignore[no-untyped-call]


def compare_relation(
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
        rows = max(1, TOKEN_PAIRS[queries_bqw.device.type != "cpu"] // scores_a_row)
        for start in range(0, len(queries_bqw), rows):
            part = slice(start, start + rows)
            query_pnqd, key_pnkd = mine.of_heads(part, how.heads, dtype)
            told_pnqd, told_pnkd = taught.of_heads(part, how.heads, dtype)
            losses_pnq, slope_pnqk = compare_relation(
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
