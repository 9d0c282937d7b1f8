"""Vectors of texts, and losses of how alike they are.

Axes: b rows, s positions, h hidden; m examples, t texts of an example, d numbers of a vector, c
candidates.
"""

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


def _real(states_bsh: Tensor, real_bs: Tensor, padding: float) -> Tensor:
    """States with another value at padding."""
    return states_bsh.float().masked_fill(~real_bs[..., None], padding)


def by_example(vectors_bd: Float[Tensor, "b d"], texts: int) -> Float[Tensor, "m t d"]:
    """The vectors of rows by example, whose rows stand side by side."""
    return vectors_bd.view(-1, texts, vectors_bd.shape[1])


def related_losses(
    task: Embed,
    vectors_mtd: Float[Tensor, "m t d"],
    scores_mt: Float[Tensor, "m t"],
    *,
    scored: bool,
) -> Predicted:
    """Losses (m,) of examples that are all there are: by ``task.loss`` if scored, else InfoNCE.

    With ``widths`` they are means over these prefixes of the vectors (Kusupati et al. 2022). A hit
    is an example whose positive is nearest, by the widest.
    """
    parts = []
    for width in task.widths or (vectors_mtd.shape[2],):
        part_mtd = vectors_mtd[..., :width]
        if task.similarity == "cosine":
            part_mtd = F.normalize(part_mtd, dim=2)
        parts.append(_losses(task, part_mtd, scores_mt, scored=scored))
    losses_m = parts[0].losses
    if len(parts) > 1:
        losses_m = torch.stack([part.losses for part in parts]).mean(0)
    return Predicted(losses_m, parts[0].hits)


def _losses(task: Embed, units_mtd: Tensor, scores_mt: Tensor, *, scored: bool) -> Predicted:
    """Losses (m,) of vectors whose dot products are their similarities."""
    if not scored:
        return info_nce(units_mtd, task.temperature, both=task.both)
    if task.loss == "order":
        return cosent(units_mtd, scores_mt[:, 0], task.temperature)
    told_mc = scores_mt[:, 1:]
    likeness_mc = (units_mtd[:, :1] * units_mtd[:, 1:]).sum(2) / task.temperature
    losses_m = (margin_mse if task.loss == "margin" else list_kl)(likeness_mc, told_mc)
    return Predicted(losses_m, likeness_mc.argmax(1) == 0)


def margin_mse(
    likeness_mc: Float[Tensor, "m c"], told_mc: Float[Tensor, "m c"]
) -> Float[Tensor, "m"]:
    """Squared errors (m,) of the positive's lead over each negative (Hofstaetter et al. 2020)."""
    leads_mc, told_leads_mc = (x[:, :1] - x[:, 1:] for x in (likeness_mc, told_mc))
    return (leads_mc - told_leads_mc).square().mean(1)


def list_kl(likeness_mc: Float[Tensor, "m c"], told_mc: Float[Tensor, "m c"]) -> Float[Tensor, "m"]:
    """Divergences (m,) of the softmax of similarities from that of a teacher's scores."""
    own_mc, told_mc = (x.log_softmax(1) for x in (likeness_mc, told_mc))
    return F.kl_div(own_mc, told_mc, reduction="none", log_target=True).sum(1)


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
