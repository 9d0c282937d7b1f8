"""Scores and loss of a task's head.

Axes: b rows, s positions of a row, k states read per row, m examples per row, n examples in all (b
* k of them, or b / choices), c scores per state, p candidate starts, h hidden, w units of a
conditioned head.
"""

from functools import lru_cache
from typing import NamedTuple, assert_never

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bertc.ir.learning import NamedSpans, Task
from bertc.ir.learning.answer import Choice, ClassLoss, Labels, Score, Several, Span, Tags, Vector
from bertc.learn.objectives.targets import MicroBatch, TaskTargets
from bertc.learn.objectives.term import HeadInput, Predicted, TermTensors
from bertc.model import BodyModule, EncoderInputs, dropout, gather_positions
from bertc.model.bilstm import StatesScores
from bertc.model.heads import ConditionedSpan, Detector

LEAST = 1e-6
"""The least 1 - p that is raised to a power: the gradient of lower ones is not finite."""


@lru_cache(maxsize=64)
def class_weights(weights: tuple[float, ...], device: torch.device) -> Float[Tensor, "c"] | None:
    """The weights of classes on a device; None if they weigh the same."""
    return torch.tensor(weights, device=device) if weights else None


def label_losses(
    loss: ClassLoss, scores_nc: Float[Tensor, "n c"], classes_n: Int[Tensor, "n"]
) -> Float[Tensor, "n"]:
    """Losses of one class per example."""
    weight_c = class_weights(loss.weights, scores_nc.device)
    losses_n = F.cross_entropy(
        scores_nc, classes_n, weight_c, reduction="none", label_smoothing=loss.smoothing
    )
    if not loss.power:
        return losses_n
    likely_n = scores_nc.softmax(1).gather(1, classes_n[:, None])[:, 0]
    return losses_n * (1 - likely_n).clamp(min=LEAST) ** loss.power


def several_losses(
    loss: ClassLoss, scores_nc: Float[Tensor, "n c"], targets_nc: Float[Tensor, "n c"]
) -> Float[Tensor, "n"]:
    """Losses of several labels per example, the mean over them; targets are 0 or 1."""
    losses_nc = F.binary_cross_entropy_with_logits(
        scores_nc,
        targets_nc * (1 - loss.smoothing) + loss.smoothing / 2 if loss.smoothing else targets_nc,
        pos_weight=class_weights(loss.weights, scores_nc.device),
        reduction="none",
    )
    if loss.power:
        unlikely_nc = torch.sigmoid(scores_nc * (1 - 2 * targets_nc))
        losses_nc = losses_nc * unlikely_nc.clamp(min=LEAST) ** loss.power
    return losses_nc.mean(1)


BEGINNINGS, ENDS = 20, 20
"""Beam of a conditioned span head: starts considered, and ends per start (ELECTRA beam_size)."""
ANSWERED_WEIGHT = 0.5
"""Weight of the answerability loss (ELECTRA answerable_weight; XLNet run_squad.py)."""


class SpanScores(NamedTuple):
    """Unnormalised scores of answer positions, minus infinity outside the passage."""

    starts: Float[Tensor, "b s"]
    ends: Float[Tensor, "b *p s"]  # of a conditioned head for each of the likeliest starts
    likeliest: Int[Tensor, "b p"] | None = None
    answered: Float[Tensor, "b"] | None = None  # above 0 if the question has an answer


class TaskTensors(TermTensors[Task, TaskTargets, nn.Module]):
    """A fine-tuning task; all rows of a batch belong to it."""

    def positions(self, targets: TaskTargets, batch: MicroBatch) -> tuple[Tensor, ...] | None:
        """Positions (b, k) of examples or words; None (all last states) if others are read too."""
        few = self.node.features.reads_last and not self.node.reads_all
        return (targets.positions,) if few else None

    def features(
        self, states: Float[Tensor, "b k h"], network: BodyModule, reading: EncoderInputs
    ) -> Float[Tensor, "b k h"]:
        """States (b, k, h) that the head reads: pooled if there is a pooler, with dropout.

        For spans they are without dropout (BERT run_squad.py, create_model; GLiNER has it inside).
        """
        if self.node.reads_last_alone:
            states = pool_states(states, network, reading, of_rows=self.node.pooled)
        if isinstance(self.node.answer, Span | NamedSpans):
            return states
        return dropout(states, self.node.dropout, network.training)

    def read(self, targets: TaskTargets, read: HeadInput[nn.Module]) -> Float[Tensor, "b k h"]:
        """States that the linear layer of its head scores, of its layers, the lowest first."""
        last, *below = read.states
        if not self.node.reads_all:
            below = [gather_positions(states, targets.positions) for states in below]
        parts = (*below, last) if self.node.features.reads_last else tuple(below)
        if self.node.features.joins == "sum":
            parts = (torch.stack(parts).sum(0),)
        if not isinstance(read.head, StatesScores):
            return self.features(parts[0], read.network, read.batch.reading)
        joined = self.features(read.head.joined(parts), read.network, read.batch.reading)
        if not self.node.recurrent:
            return joined
        return gather_positions(read.head.read(joined, read.batch.reading), targets.positions)

    def score(self, targets: TaskTargets, read: HeadInput[nn.Module]) -> Predicted:
        """Losses and hits (n,) of examples, words or windows."""
        return answer_losses(self.node, targets, self.read(targets, read), read.head)

    def weights(self, targets: TaskTargets) -> Tensor:
        """1 for labelled examples, else 0; of choices one per example."""
        if isinstance(self.node.answer, Choice):
            return torch.ones_like(targets.weights.view(-1, self.node.answer.most)[:, 0])
        return targets.weights

    def count(self, targets: TaskTargets) -> Tensor:
        """Number of predictions, or the sum of the weights of their classes."""
        weights = self.weights(targets)
        weight_c = class_weights(self.node.class_loss.weights, weights.device)
        if weight_c is None or isinstance(self.node.answer, Several):
            return weights.sum()
        return (weights * weight_c[targets.targets.long().clamp(min=0)]).sum()


def pool_states(
    states: Tensor, network: BodyModule, reading: EncoderInputs, *, of_rows: bool
) -> Tensor:
    """States (b, k, h) of rows or of tokens, through the pooler if the network has one for them."""
    if not of_rows:
        return network.pooler(states) if network.node.pooled.of_tokens else states
    pools = network.node.pooler or network.node.pooled.of_rows
    return network.pool(states, reading) if pools else states


def answer_scores(
    answer: Labels | Several | Score | Choice | Tags | Vector,
    states_bkh: Float[Tensor, "b k h"],
    head: nn.Module,
) -> Tensor:
    """Scores in fp32: (n, labels), (n, numbers), (n, choices) or (b, k, tags)."""
    # In bf16 scores of one magnitude would be one number; those of tags are compared within a word.
    scores_bkc: Tensor = head(states_bkh if answer.kind == "tags" else states_bkh.float()).float()
    match answer:
        case Tags():
            return scores_bkc
        case Choice():
            return scores_bkc.reshape(-1, answer.most)
        case Labels() | Several() | Score():
            return scores_bkc.flatten(0, 1)
        case Vector():
            raise AssertionError("vectors are compared, not scored (objectives/text/pairs.py)")


def answer_losses(task: Task, own: TaskTargets, states: Tensor, head: nn.Module) -> Predicted:
    """Losses in nats (n,) and hits (n,) of examples, words or windows."""
    answer, loss = task.answer, task.class_loss
    if isinstance(answer, Span):
        return _span_losses(own, states, head)
    if isinstance(answer, NamedSpans):
        return _named_losses(task, own, states, head)
    scores = answer_scores(answer, states, head)
    match answer:
        case Score(logistic=True):
            targets_nc = own.targets.reshape_as(scores)
            losses_nc = F.binary_cross_entropy_with_logits(scores, targets_nc, reduction="none")
            return Predicted(losses_nc[:, 0], (scores > 0)[:, 0] == (targets_nc > 0.5)[:, 0])
        case Score():
            losses_nc = (scores - own.targets.reshape_as(scores)).square()
            losses_n = losses_nc.mean(1) if answer.width > 1 else losses_nc[:, 0]
            return Predicted(losses_n, torch.zeros_like(losses_n))
        case Several():
            targets_nc = own.targets.reshape_as(scores)
            hits_n = ((scores > 0) == (targets_nc > 0)).all(1)
            return Predicted(several_losses(loss, scores, targets_nc), hits_n)
        case Choice():
            there_nc = own.weights.view(-1, answer.most) > 0
            scores = scores.masked_fill(~there_nc, float("-inf"))
            classes = own.targets.view(-1, answer.most)[:, 0].long()
        case Labels() | Tags():
            scores, classes = scores.flatten(0, -2), own.targets.flatten().long()
        case Vector():
            raise AssertionError("vectors are compared, not scored (objectives/text/pairs.py)")
        case _:
            assert_never(answer)
    losses_n = label_losses(loss, scores, classes.clamp(min=0))
    return Predicted(losses_n, scores.argmax(-1) == classes)


def span_scores(targets: TaskTargets, x_bsh: Float[Tensor, "b s h"], head: nn.Module) -> SpanScores:
    """Scores for inference (start unknown), of rows with one example each."""
    allowed_bs = _allowed(targets)
    if not isinstance(head, ConditionedSpan):
        starts_bs, ends_bs = head(x_bsh).float().unbind(-1)
        return SpanScores(_kept(starts_bs, allowed_bs), _kept(ends_bs, allowed_bs))
    starts_bs = _kept(head.start(x_bsh)[..., 0].float(), allowed_bs)
    likeliest_bp = starts_bs.topk(min(BEGINNINGS, starts_bs.shape[1])).indices
    ends_bps = head.end.scores(x_bsh, gather_positions(x_bsh, likeliest_bp))
    ends_bps = _kept(ends_bps, allowed_bs[:, None])
    answered_b = None
    if head.answered is not None:
        answered_b = _answered(head.answered, targets, x_bsh, starts_bs[:, None])[:, 0]
    return SpanScores(starts_bs, ends_bps, likeliest_bp, answered_b)


def _span_losses(targets: TaskTargets, x_bsh: Float[Tensor, "b s h"], head: nn.Module) -> Predicted:
    """Mean of the cross entropies of start and end."""
    firsts_bm, lasts_bm = targets.targets.long().unbind(2)
    own_bms = tokens_of_examples(targets)
    if not isinstance(head, ConditionedSpan):
        # Every token of the example competes (run_squad.py, create_model).
        starts_bs, ends_bs = head(x_bsh).float().unbind(-1)
        starts_bms, ends_bms = _kept(starts_bs[:, None], own_bms), _kept(ends_bs[:, None], own_bms)
    else:
        own_bms = own_bms & _allowed(targets)[:, None]
        starts_bms = _kept(head.start(x_bsh)[..., 0].float()[:, None], own_bms)
        begun_bmh = gather_positions(x_bsh, firsts_bm)
        ends_bms = _kept(head.end.scores(x_bsh, begun_bmh), own_bms)
    losses_bm = 0.5 * (_cross_entropy(starts_bms, firsts_bm) + _cross_entropy(ends_bms, lasts_bm))
    if isinstance(head, ConditionedSpan) and head.answered is not None:
        answered_bm = _answered(head.answered, targets, x_bsh, starts_bms)
        losses_bm = losses_bm + ANSWERED_WEIGHT * F.binary_cross_entropy_with_logits(
            answered_bm, (firsts_bm > targets.positions).float(), reduction="none"
        )
    hits_bm = (starts_bms.argmax(2) == firsts_bm) & (ends_bms.argmax(2) == lasts_bm)
    return Predicted(losses_bm, hits_bm)


def _answered(
    head: Detector,
    targets: TaskTargets,
    states_bsh: Float[Tensor, "b s h"],
    starts_bms: Float[Tensor, "b m s"],
) -> Float[Tensor, "b m"]:
    """Answerability scores (b, m), from the first token and the start-weighted mean state."""
    none_bmh = gather_positions(states_bsh, targets.positions)
    mean_bmh = starts_bms.softmax(2).to(states_bsh.dtype) @ states_bsh
    return head(torch.cat([mean_bmh, none_bmh], dim=2)).float()


def named_scores(
    task: Task, targets: TaskTargets, x_bkh: Float[Tensor, "b k h"], head: nn.Module
) -> Float[Tensor, "b w n l"]:
    """Scores of spans by first word w, name n and width l in words."""
    words_bw = targets.positions[:, targets.passage.shape[1] :] > 0  # names come before them
    scores_bwnl: Tensor = head(x_bkh, targets.passage, words_bw, task.dropout)
    return scores_bwnl


def _named_losses(task: Task, targets: TaskTargets, x_bkh: Tensor, head: nn.Module) -> Predicted:
    """The sum of the binary cross entropies of all spans from a word on; hits if it is right.

    A target is 0, or counts names and widths from 1.
    """
    scores_bwc = named_scores(task, targets, x_bkh, head).flatten(2)
    count = targets.passage.shape[1]
    code_bw = targets.targets[:, count:].long().clamp(min=0)
    right_bwc = F.one_hot(code_bw, scores_bwc.shape[2] + 1)[..., 1:].float()
    losses_bwc = F.binary_cross_entropy_with_logits(scores_bwc, right_bwc, reduction="none")
    best_bw = scores_bwc.max(2)
    hits_bw = torch.where(best_bw.values > 0, best_bw.indices + 1, 0) == code_bw
    return Predicted(F.pad(losses_bwc.sum(2), (count, 0)), F.pad(hits_bw, (count, 0)))


def tokens_of_examples(targets: TaskTargets) -> Bool[Tensor, "b m s"]:
    """Mask (b, m, s) of the tokens of each example; all True for an empty slot."""
    nth_m = torch.arange(1, targets.weights.shape[1] + 1, device=targets.examples.device)
    # An empty slot needs some score, or its loss would be NaN whatever its weight.
    return (targets.examples[:, None] == nth_m[:, None]) | (targets.weights == 0)[..., None]


def _kept(scores: Tensor, where: Tensor) -> Tensor:
    return scores.masked_fill(~where, float("-inf"))


def _cross_entropy(
    scores_bms: Float[Tensor, "b m s"], targets_bm: Int[Tensor, "b m"]
) -> Float[Tensor, "b m"]:
    losses_n = F.cross_entropy(scores_bms.flatten(0, 1), targets_bm.flatten(), reduction="none")
    return losses_n.view_as(targets_bm)


def _allowed(targets: TaskTargets) -> Bool[Tensor, "b s"]:
    """Mask (b, s) of possible answers; the first token of each example means "no answer"."""
    return targets.passage.scatter(1, targets.positions, True)
