"""The loss of each term of a stage, as sums that can be added over parts of a batch.

Axes: b rows, s positions or those of them that are judged, m examples of a row, k predictions of a
row, n = b*k, h hidden.
"""

from dataclasses import replace
from typing import Literal, NamedTuple, assert_never

import torch
import torch.nn.functional as F

from bertc.ir.learning.objective import Clm, Mlm, Nsp, Plm, Rtd, Sbo, Sop, Tlm
from bertc.ir.learning.task import Task
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.head import AdaptiveHead
from bertc.ir.program.resolved import Network, Stage
from bertc.ir.terms.masked import Masked
from bertc.objectives.adaptive import adaptive_loss
from bertc.objectives.answers import answer_loss
from bertc.objectives.cross_entropy import vocabulary_loss
from bertc.objectives.heads import (
    Weights,
    pair_logits,
    rtd_logits,
    sbo_features,
    token_features,
    vocabulary_bias,
)
from bertc.objectives.rtd import labels
from bertc.objectives.targets import Boundaries, Columns, Questions, TermLoss


def losses(
    stage: Stage,
    columns: Columns,
    hidden_bsh: torch.Tensor,
    pooled_bmh: torch.Tensor | None,
    weights: Weights,
    network: Network | None = None,
) -> dict[str, TermLoss]:
    """The loss of every term that a network learns, by kind; factors of terms are not applied.

    ``hidden`` are the network's states, or those that were asked for; the encoder's if none is
    named. ``weights`` has the heads' tensors by name and as ``token`` its table (vocab, embedding).
    A generator's ``mlm`` comes with its guesses, even where nothing trains it.
    """
    reader = network or stage.networks()[-1]
    encoder, name = reader.encoder, reader.name
    found: dict[str, TermLoss] = {}
    predicted: Predicted | None = None
    if name == "generator" or any(isinstance(t.objective, Masked) for t in reader.terms):
        predicted = _predicted(reader, columns, hidden_bsh, weights)
    if not reader.terms and predicted:
        found["mlm"] = _summed(predicted, columns.asked_by("mlm"))
    for term in reader.terms:
        match term.objective:
            case Mlm() | Tlm() as objective:
                assert predicted is not None, "what is hidden is predicted"
                found[objective.kind] = _summed(predicted, columns.asked_by(objective.kind))
            case Clm():
                assert columns.clm is not None, "clm without its columns"
                told = _told(encoder, "clm", columns.clm.targets, hidden_bsh, weights)
                found["clm"] = _summed(told, columns.clm.weights)
            case Plm():
                assert columns.plm is not None, "plm without its columns"
                states_bkh = columns.states(hidden_bsh, "plm")
                told = _told(encoder, "plm", columns.plm.targets, states_bkh, weights)
                found["plm"] = _summed(told, columns.plm.weights)
            case Sbo():
                assert columns.sbo is not None, "sbo without its columns"
                left_bkh, right_bkh = (
                    columns.states(hidden_bsh, side, name) for side in ("left", "right")
                )
                found["sbo"] = _sbo_loss(encoder, columns.sbo, (left_bkh, right_bkh), weights)
            case Nsp() | Sop() as objective:
                assert columns.pairs is not None, "a question about pairs without its columns"
                assert pooled_bmh is not None, "a question about pairs without a pooler"
                found[objective.kind] = _pair_loss(
                    objective.kind, columns.pairs, pooled_bmh, weights
                )
            case Rtd() as objective:
                found["rtd"] = _rtd_loss(encoder, objective, columns, hidden_bsh, weights)
            case Task() as task:
                found[task.title] = _task_loss(encoder, task, columns, hidden_bsh, weights)
            case _:
                assert_never(term.objective)
    return found


def _task_loss(
    encoder: Encoder, task: Task, columns: Columns, hidden: torch.Tensor, weights: Weights
) -> TermLoss:
    """That of rows of the task. On rows of another every weight of the head has a gradient of
    zeros: so all of a stage's weights are counted through as many updates.
    """
    asked = columns.answers
    assert asked is not None, "a task without its columns"
    if asked.task == task.title:
        return answer_loss(task.answer, encoder, asked, hidden, weights)
    none = hidden.new_zeros((), dtype=torch.float32)
    touched = sum((weights[w.name].sum() * 0 for w in task.weights(encoder)), none)
    return TermLoss(touched, none, none)


class Predicted(NamedTuple):
    """Of all hidden tokens (n,): loss, whether it scored highest, and what a generator guesses."""

    losses: torch.Tensor
    hits: torch.Tensor
    guesses: torch.Tensor | None


def _token_losses(
    features_ne: torch.Tensor,
    head: str,
    targets_bk: torch.Tensor,
    weights: Weights,
    chances_bk: torch.Tensor | None = None,
) -> Predicted:
    table_ve, bias_v = weights["token"].to(features_ne.dtype), vocabulary_bias(head, weights)
    chances_n = None if chances_bk is None else chances_bk.reshape(-1)
    return Predicted(
        *vocabulary_loss(features_ne, table_ve, bias_v, targets_bk.reshape(-1), chances_n)
    )


def _summed(predicted: Predicted, weights_bk: torch.Tensor) -> TermLoss:
    losses_n, hits_n, guesses_n = predicted
    weight_n = weights_bk.reshape(-1)
    return TermLoss(
        (losses_n * weight_n).sum(),
        weight_n.sum(),
        (hits_n * weight_n).sum(),
        None if guesses_n is None else guesses_n.view_as(weights_bk),
    )


def _predicted(
    reader: Network, columns: Columns, hidden_bsh: torch.Tensor, weights: Weights
) -> Predicted:
    """Of the hidden tokens of all rows, whichever term each row counts for."""
    assert columns.mlm is not None, "hidden tokens without their columns"
    states_bkh = columns.states(hidden_bsh, "mlm", reader.name)
    guessing = reader.name == "generator" and columns.rtd is not None
    chances_bk = columns.rtd.chances if guessing and columns.rtd else None
    return _told(reader.encoder, "mlm", columns.mlm.targets, states_bkh, weights, chances_bk)


def _told(
    encoder: Encoder,
    head: str,
    targets_bk: torch.Tensor,
    states_bkh: torch.Tensor,
    weights: Weights,
    chances_bk: torch.Tensor | None = None,
) -> Predicted:
    """Of tokens that the encoder's head over the vocabulary tells from states (b, k, h)."""
    states_nh = states_bkh.flatten(0, 1)
    if isinstance(encoder.head, AdaptiveHead):
        assert chances_bk is None, "no guesses are drawn from an adaptive head"
        losses = adaptive_loss(encoder, states_nh, targets_bk.reshape(-1), weights, head)
        return Predicted(*losses, None)
    features_ne = token_features(encoder, states_nh, weights, head)
    return _token_losses(features_ne, head, targets_bk, weights, chances_bk)


def _rtd_loss(
    encoder: Encoder,
    objective: Rtd,
    columns: Columns,
    hidden_bsh: torch.Tensor,
    weights: Weights,
) -> TermLoss:
    assert columns.rtd is not None, "rtd without its columns"
    whole = objective.over == "all"
    states = hidden_bsh if whole else columns.states(hidden_bsh, "rtd")
    logits_bs = rtd_logits(encoder, states, weights).float()
    labels_bs, weight_bs = labels(objective, columns), columns.rtd.judged
    losses_bs = F.binary_cross_entropy_with_logits(logits_bs, labels_bs, reduction="none")
    hits_bs = (logits_bs > 0) == labels_bs.bool()
    return TermLoss(
        (losses_bs * weight_bs).sum(),
        weight_bs.sum(),
        (hits_bs * weight_bs).sum(),
        yes=(labels_bs * weight_bs).sum(),
    )


def _sbo_loss(
    encoder: Encoder,
    asked: Boundaries,
    around: tuple[torch.Tensor, torch.Tensor],
    weights: Weights,
) -> TermLoss:
    left_nh, right_nh = (states_bkh.flatten(0, 1) for states_bkh in around)
    features_ne = sbo_features(encoder, left_nh, right_nh, asked.place.reshape(-1), weights)
    found = _token_losses(features_ne, "sbo", asked.targets, weights)
    return _summed(found, asked.weights)


def _pair_loss(
    kind: Literal["nsp", "sop"], asked: Questions, pooled_bmh: torch.Tensor, weights: Weights
) -> TermLoss:
    pooled_nh = pooled_bmh.reshape(-1, pooled_bmh.shape[-1])
    logits_n2 = pair_logits(kind, pooled_nh, weights).float()
    labels_n = asked.labels.reshape(-1)
    losses_n = F.cross_entropy(logits_n2, labels_n, reduction="none")
    hits_n = logits_n2.argmax(1) == labels_n
    found = _summed(Predicted(losses_n, hits_n, None), asked.weights)
    return replace(found, yes=(asked.labels * asked.weights).sum())
