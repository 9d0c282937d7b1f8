"""What a task's head says of the rows of a batch, and its loss.

Axes: b rows, s positions of a row, k states read of a row, m examples of a row, n examples in all
(b * k of them, or b / choices), c scores of a state, p likeliest beginnings, h hidden,
w units of a conditioned head.
"""

from collections.abc import Callable
from typing import NamedTuple, assert_never

import torch
import torch.nn.functional as F

from bertc.ir.learning.answer import Answer, Choice, Conditioned, Labels, Plain, Score, Span, Tags
from bertc.ir.network.encoder import Encoder
from bertc.nn import dropout, rows_at
from bertc.nn.activation import activate
from bertc.objectives.heads import Weights
from bertc.objectives.targets import Answers, Columns, TermLoss

BEGINNINGS, ENDS = 20, 20
"""Of a conditioned span: beginnings looked into, and ends of each (ELECTRA beam_size)."""
ANSWERED_WEIGHT = 0.5
"""Of the loss of whether there is an answer (ELECTRA answerable_weight; XLNet run_squad.py)."""


class SpanScores(NamedTuple):
    """What is said of where an answer stands; scores are not normalised.

    ``starts`` and ``ends`` are of every token, minus infinity where no answer may stand. Of a
    conditioned head ``likeliest`` are the best beginnings, and ``ends`` are told for each of them.
    ``answered``: the score of there being an answer.
    """

    starts: torch.Tensor  # (b, s)
    ends: torch.Tensor  # (b, s), or (b, p, s)
    likeliest: torch.Tensor | None = None  # (b, p) long
    answered: torch.Tensor | None = None  # (b,)


def answer_features(
    answer: Answer,
    columns: Columns,
    hidden: torch.Tensor,
    pool: Callable[[torch.Tensor], torch.Tensor] | None,
    rate: float,
    training: bool,
) -> torch.Tensor:
    """The states (b, k, h) that a head reads: pooled if there is a pooler, with dropout ``rate``.

    Of spans all states (b, s, h), without dropout (BERT run_squad.py, create_model).
    """
    if isinstance(answer, Span):
        return hidden
    states_bkh = columns.states(hidden, "answers")
    if pool is not None and not isinstance(answer, Tags):
        states_bkh = pool(states_bkh)
    return dropout(states_bkh, rate, training)


def answer_scores(
    answer: Labels | Score | Choice | Tags, name: str, states_bkh: torch.Tensor, weights: Weights
) -> torch.Tensor:
    """Scores in fp32: (n, labels), (n, 1), (n, choices) or (b, k, tags)."""
    weight, bias = (weights[f"{name}.{part}"].to(states_bkh.dtype) for part in ("weight", "bias"))
    scores_bkc = F.linear(states_bkh, weight, bias).float()
    match answer:
        case Tags():
            return scores_bkc
        case Choice():
            return scores_bkc.reshape(-1, answer.most)
        case Labels() | Score():
            return scores_bkc.flatten(0, 1)
        case _:
            assert_never(answer)


def answer_loss(
    answer: Answer, encoder: Encoder, asked: Answers, states: torch.Tensor, weights: Weights
) -> TermLoss:
    """Summed over examples, words or windows. ``correct`` counts those told right."""
    name = asked.task
    if isinstance(answer, Span):
        return _span_loss(answer, encoder, asked, states, weights)
    found = answer_scores(answer, name, states, weights)
    match answer:
        case Score():
            targets, told = asked.targets.flatten(), asked.weights.flatten()
            squares_n = (found[:, 0] - targets).square() * told
            return TermLoss(squares_n.sum(), told.sum(), torch.zeros_like(told.sum()))
        case Choice():
            there_nc = asked.weights.view(-1, answer.most) > 0
            found = found.masked_fill(~there_nc, float("-inf"))
            targets = asked.targets.view(-1, answer.most)[:, 0].long()
            told = torch.ones_like(targets, dtype=found.dtype)
        case Labels() | Tags():
            found, targets = found.flatten(0, -2), asked.targets.flatten().long()
            told = asked.weights.flatten()
        case _:
            assert_never(answer)
    losses_n = F.cross_entropy(found, targets.clamp(min=0), reduction="none") * told
    hits_n = (found.argmax(-1) == targets) * told
    return TermLoss(losses_n.sum(), told.sum(), hits_n.sum())


def answer_count(answer: Answer, asked: Answers) -> torch.Tensor:
    """What the summed loss of these rows is a mean over (0-d)."""
    return asked.weights.sum() / answer.most if isinstance(answer, Choice) else asked.weights.sum()


def span_scores(
    answer: Span, encoder: Encoder, asked: Answers, states_bsh: torch.Tensor, weights: Weights
) -> SpanScores:
    """What the head says where the beginning is not known, of rows of one example each."""
    name, head = asked.task, answer.head
    allowed_bs = _allowed(asked)
    if isinstance(head, Plain):
        starts_bs, ends_bs = _affine(states_bsh, name, weights).float().unbind(-1)
        return SpanScores(_kept(starts_bs, allowed_bs), _kept(ends_bs, allowed_bs))
    starts_bs = _kept(_starts(name, states_bsh, weights), allowed_bs)
    likeliest_bp = starts_bs.topk(min(BEGINNINGS, starts_bs.shape[1])).indices
    begun_bph = rows_at(states_bsh, likeliest_bp)
    ends_bps = _ends(head, encoder, name, states_bsh, begun_bph, weights)
    ends_bps = _kept(ends_bps, allowed_bs[:, None])
    answered_b = None
    if answer.unanswerable:
        none_bmh = rows_at(states_bsh, asked.positions)
        answered_b = _answered(head, name, states_bsh, none_bmh, starts_bs[:, None], weights)[:, 0]
    return SpanScores(starts_bs, ends_bps, likeliest_bp, answered_b)


def _span_loss(
    answer: Span, encoder: Encoder, asked: Answers, states_bsh: torch.Tensor, weights: Weights
) -> TermLoss:
    """The mean of the cross entropies of both ends."""
    name, head, told_bm = asked.task, answer.head, asked.weights
    firsts_bm, lasts_bm = asked.targets.long().unbind(2)
    own_bms = _own(asked)
    if isinstance(head, Plain):  # every token of it competes (run_squad.py, create_model)
        starts_bs, ends_bs = _affine(states_bsh, name, weights).float().unbind(-1)
        starts_bms, ends_bms = _kept(starts_bs[:, None], own_bms), _kept(ends_bs[:, None], own_bms)
    else:
        own_bms = own_bms & _allowed(asked)[:, None]
        starts_bms = _kept(_starts(name, states_bsh, weights)[:, None], own_bms)
        begun_bmh = rows_at(states_bsh, firsts_bm)
        ends_bms = _kept(_ends(head, encoder, name, states_bsh, begun_bmh, weights), own_bms)
    losses_bm = 0.5 * (_cross_entropy(starts_bms, firsts_bm) + _cross_entropy(ends_bms, lasts_bm))
    if isinstance(head, Conditioned) and answer.unanswerable:
        none_bmh = rows_at(states_bsh, asked.positions)
        answered_bm = _answered(head, name, states_bsh, none_bmh, starts_bms, weights)
        losses_bm = losses_bm + ANSWERED_WEIGHT * F.binary_cross_entropy_with_logits(
            answered_bm, (firsts_bm > asked.positions).float(), reduction="none"
        )
    hits_bm = (starts_bms.argmax(2) == firsts_bm) & (ends_bms.argmax(2) == lasts_bm)
    return TermLoss((losses_bm * told_bm).sum(), told_bm.sum(), (hits_bm * told_bm).sum())


def _own(asked: Answers) -> torch.Tensor:
    """Which tokens are of each example of a row (b, m, s); all where there is no such example."""
    nth_m = torch.arange(1, asked.weights.shape[1] + 1, device=asked.examples.device)
    # Scores of which none were left would have a loss that is no number, whatever its weight.
    return (asked.examples[:, None] == nth_m[:, None]) | (asked.weights == 0)[..., None]


def _kept(scores: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
    return scores.masked_fill(~where, float("-inf"))


def _cross_entropy(scores_bms: torch.Tensor, targets_bm: torch.Tensor) -> torch.Tensor:
    losses_n = F.cross_entropy(scores_bms.flatten(0, 1), targets_bm.flatten(), reduction="none")
    return losses_n.view_as(targets_bm)


def _allowed(asked: Answers) -> torch.Tensor:
    """Where an answer may stand (b, s); the first token of each stands for there being none."""
    return asked.passage.scatter(1, asked.positions, True)


def _affine(states: torch.Tensor, name: str, weights: Weights) -> torch.Tensor:
    weight, bias = (weights[f"{name}.{part}"].to(states.dtype) for part in ("weight", "bias"))
    return F.linear(states, weight, bias)


def _starts(name: str, states_bsh: torch.Tensor, weights: Weights) -> torch.Tensor:
    return _affine(states_bsh, f"{name}.start", weights)[..., 0].float()


def _ends(
    head: Conditioned,
    encoder: Encoder,
    name: str,
    states_bsh: torch.Tensor,
    begun_bph: torch.Tensor,
    weights: Weights,
) -> torch.Tensor:
    """Scores (b, p, s) of ends, for each of some beginnings."""
    h = begun_bph.shape[2]
    weight, bias = (weights[f"{name}.end.dense.{part}"] for part in ("weight", "bias"))
    # One product with each half: the states side by side would be p times as many.
    own_bsw = F.linear(states_bsh, weight[:, :h].to(states_bsh.dtype))
    given_bpw = F.linear(begun_bph, weight[:, h:].to(begun_bph.dtype), bias.to(begun_bph.dtype))
    mixed_bpsw = activate(head.activation, own_bsw[:, None] + given_bpw[:, :, None])
    if head.normed:
        scale, shift = (weights[f"{name}.end.norm.{part}"] for part in ("weight", "bias"))
        shape, dtype = scale.shape, mixed_bpsw.dtype
        mixed_bpsw = F.layer_norm(
            mixed_bpsw, shape, scale.to(dtype), shift.to(dtype), encoder.norm.eps
        )
    return _affine(mixed_bpsw, f"{name}.end", weights)[..., 0].float()


def _answered(
    head: Conditioned,
    name: str,
    states_bsh: torch.Tensor,
    none_bmh: torch.Tensor,
    starts_bms: torch.Tensor,
    weights: Weights,
) -> torch.Tensor:
    """Scores (b, m) of there being an answer, from the first token and the mean beginning."""
    mean_bmh = starts_bms.softmax(2).to(states_bsh.dtype) @ states_bsh
    both_bmf = torch.cat([mean_bmh, none_bmh], dim=2)
    dense_bmw = activate(head.activation, _affine(both_bmf, f"{name}.answered.dense", weights))
    weight = weights[f"{name}.answered.weight"].to(dense_bmw.dtype)
    return F.linear(dense_bmw, weight)[..., 0].float()
