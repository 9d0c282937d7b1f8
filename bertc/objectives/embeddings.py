"""Vectors of texts, and the losses of their similarities.

Axes: b rows, s positions, h hidden; n examples of a micro-batch, m of the whole batch, t texts of
an example, d numbers of a vector, c candidates.
"""

from typing import assert_never

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import nn

from bertc.ir.learning.answer import Pooling
from bertc.ir.learning.custom_task import Embed
from bertc.nn import EncoderInputs, dropout
from bertc.nn.body import BodyModule
from bertc.nn.heads import WidthMaps
from bertc.objectives.targets import MicroBatch, TaskTargets
from bertc.objectives.term import Predicted, TermTensors, TextRows


def pooled(
    pooling: Pooling,
    states_bsh: Float[torch.Tensor, "b s h"],
    real_bs: Bool[torch.Tensor, "b s"],
) -> Float[torch.Tensor, "b h"]:
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


def _real(states_bsh: torch.Tensor, real_bs: torch.Tensor, padding: float) -> torch.Tensor:
    """States with another value at padding."""
    return states_bsh.float().masked_fill(~real_bs[..., None], padding)


class EmbedTensors(TermTensors[Embed, TaskTargets, WidthMaps]):
    """Texts whose vectors are compared with each other; all rows of a batch belong to it."""

    def targets(self, rows: TextRows, reading: EncoderInputs) -> tuple[EncoderInputs, TaskTargets]:
        """Unused: task targets come from examples, not from text (``step/task_feed.py``)."""
        raise AssertionError("task targets come from examples, not from text")

    def positions(self, own: TaskTargets, batch: MicroBatch) -> tuple[torch.Tensor, ...] | None:
        """The first token of each row (b, 1), or None: all states."""
        return (own.positions,) if self.node.pooling == "cls" else None

    def vectors(
        self,
        states: torch.Tensor,
        own: TaskTargets,
        head: nn.Module,
        network: BodyModule,
    ) -> Float[torch.Tensor, "b d"]:
        """Vectors (b, d) of rows in fp32; the dense layer is for training alone."""
        vectors_bd = pooled(self.node.pooling, states, own.passage)
        if not network.training:
            return vectors_bd
        vectors_bd = dropout(vectors_bd, self.node.dropout, training=True)
        if self.node.mlp:
            assert isinstance(head, WidthMaps), "it was built for vectors"
            vectors_bd = torch.tanh(head.of(0, vectors_bd.to(states.dtype))).float()
        return vectors_bd

    def compared_vectors(
        self, states: torch.Tensor, own: TaskTargets, head: nn.Module, network: BodyModule
    ) -> tuple[Float[torch.Tensor, "n t d"], Float[torch.Tensor, "n"]]:
        """Vectors of the texts of examples, and scores of their pairs, nan if there are none."""
        texts = self.node.answer.texts
        vectors_ntd = by_example(self.vectors(states, own, head, network), texts)
        return vectors_ntd, own.targets.view(-1, texts)[:, 0]

    def score(
        self,
        states: tuple[torch.Tensor, ...],
        own: TaskTargets,
        batch: MicroBatch,
        head: WidthMaps,
        network: BodyModule,
        chances: torch.Tensor | None,
    ) -> Predicted:
        """Losses and hits (n,) of its examples, each beside all those of the batch.

        Their gradient is that of the losses of all, of which each micro-batch gets its own part.
        """
        vectors_ntd, scores_n = self.compared_vectors(states[0], own, head, network)
        whole = batch.whole
        if whole is None:
            return related_losses(self.node, vectors_ntd, scores_n, scored=bool(self.node.score))
        count = len(vectors_ntd)
        end = whole.first + count
        vectors_mtd = torch.cat([whole.vectors[: whole.first], vectors_ntd, whole.vectors[end:]])
        of_all = related_losses(self.node, vectors_mtd, whole.scores, scored=bool(self.node.score))
        own_n, sum_of_all = of_all.losses[whole.first : end].detach(), of_all.losses.sum()
        losses_n = own_n + (sum_of_all - sum_of_all.detach()) / count
        return Predicted(losses_n, of_all.hits[whole.first : end])

    def weights(self, own: TaskTargets) -> torch.Tensor:
        """1 for each example."""
        return own.weights.view(-1, self.node.answer.texts)[:, 0]


def by_example(vectors_bd: Float[torch.Tensor, "b d"], texts: int) -> Float[torch.Tensor, "n t d"]:
    """The vectors of rows by example, whose rows stand side by side."""
    return vectors_bd.view(-1, texts, vectors_bd.shape[1])


def related_losses(
    task: Embed,
    vectors_mtd: Float[torch.Tensor, "m t d"],
    scores_m: Float[torch.Tensor, "m"],
    *,
    scored: bool,
) -> Predicted:
    """Losses (m,) of examples that are all there are: CoSENT if they have scores, else InfoNCE."""
    units_mtd = F.normalize(vectors_mtd, dim=2)
    if scored:
        return cosent(units_mtd, scores_m, task.temperature)
    return info_nce(units_mtd, task.temperature, both=task.both)


def info_nce(
    units_mtd: Float[torch.Tensor, "m t d"], temperature: float, *, both: bool
) -> Predicted:
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
    units_mtd: Float[torch.Tensor, "m t d"], scores_m: Float[torch.Tensor, "m"], temperature: float
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
    return Predicted(loss.expand(len(scores_m)), torch.zeros_like(scores_m))
