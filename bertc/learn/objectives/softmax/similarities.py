"""Vectors of texts, and losses of how alike they are.

Axes: b rows, s positions, h hidden; m examples, t texts of an example, d numbers of a vector, c
candidates.
"""

from typing import assert_never

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from bertc.ir.learning.answer import Pooling
from bertc.ir.learning.vector_task import Embed
from bertc.learn.objectives.term import Predicted


def pooled(
    pooling: Pooling, states_bsh: Float[Tensor, "b s h"], real_bs: Bool[Tensor, "b s"]
) -> Float[Tensor, "b h"]:
    """A vector (b, h) in fp32 for each row, of the states of its real tokens."""
    match pooling:
        case "cls":
            return states_bsh[:, 0].float()
        case "mean":
            sums_bh = _real(states_bsh, real_bs, 0.0).sum(1)
            return sums_bh / real_bs.sum(1, keepdim=True).clamp(min=1)
        case "max":
            return _real(states_bsh, real_bs, -torch.inf).amax(1)
        case unreachable:
            assert_never(unreachable)


def _real(states_bsh: Tensor, real_bs: Tensor, padding: float) -> Tensor:
    """States with another value at padding."""
    return states_bsh.float().masked_fill(~real_bs[..., None], padding)


def by_example(vectors_bd: Float[Tensor, "b d"], texts: int) -> Float[Tensor, "m t d"]:
    """The vectors of rows by example, whose rows stand side by side."""
    return vectors_bd.view(-1, texts, vectors_bd.shape[1])


def related_losses(
    task: Embed, vectors_mtd: Float[Tensor, "m t d"], scores_m: Float[Tensor, "m"], *, scored: bool
) -> Predicted:
    """Losses (m,) of examples that are all there are: CoSENT if they have scores, else InfoNCE.

    A hit is an example whose positive is nearest.
    """
    units_mtd = F.normalize(vectors_mtd, dim=2)
    if scored:
        return cosent(units_mtd, scores_m, task.temperature)
    return info_nce(units_mtd, task.temperature, both=task.both)


def info_nce(units_mtd: Float[Tensor, "m t d"], temperature: float, *, both: bool) -> Predicted:
    """Cross entropy (m,) of each positive among the other texts of all examples.

    They are the positives and the negatives of all (Gao et al. 2021, equation 5). With ``both`` its
    mean with that of each first text among those of all, for a positive.
    """
    candidates_cd = units_mtd[:, 1:].transpose(0, 1).flatten(0, 1)
    scores_mc = units_mtd[:, 0] @ candidates_cd.T / temperature
    right_m = torch.arange(len(scores_mc), device=scores_mc.device)
    losses_m = F.cross_entropy(scores_mc, right_m, reduction="none")
    if both:
        back_mm = scores_mc[:, : len(scores_mc)].T
        losses_m = (losses_m + F.cross_entropy(back_mm, right_m, reduction="none")) / 2
    return Predicted(losses_m, scores_mc.argmax(1) == right_m)


def cosent(
    units_mtd: Float[Tensor, "m t d"], scores_m: Float[Tensor, "m"], temperature: float
) -> Predicted:
    """CoSENT (Su 2022): log(1 + sum of exp((cosine of i - cosine of j) / temperature)).

    The sum is over the pairs of which j has the higher score. It is one loss of all examples, which
    each has (m,), so that it is their mean; none of them is right or wrong.
    """
    cosines_m = (units_mtd[:, 0] * units_mtd[:, 1]).sum(1) / temperature
    differences_mm = cosines_m[:, None] - cosines_m
    lower_mm = scores_m[:, None] < scores_m
    wrong = differences_mm.masked_fill(~lower_mm, -torch.inf).flatten()
    loss = torch.cat([wrong.new_zeros(1), wrong]).logsumexp(0)
    return Predicted(loss.expand(len(scores_m)), torch.zeros_like(scores_m).bool())
