"""The loss of each term of a stage, as sums that can be added over parts of a batch.

Axes: b rows, s positions, m examples of a row, k predictions of a row, n = b*k, h hidden.
"""

from typing import Literal, assert_never

import torch
import torch.nn.functional as F

from bertc.ir.encoder import Encoder
from bertc.ir.head import AdaptiveHead
from bertc.ir.objective import Clm, Mlm, Nsp, Sbo, Sop, Tlm
from bertc.ir.resolved import Stage
from bertc.objectives.adaptive import adaptive_loss
from bertc.objectives.columns import Boundaries, Columns, Questions, TermLoss
from bertc.objectives.cross_entropy import vocabulary_loss
from bertc.objectives.heads import (
    Weights,
    pair_logits,
    sbo_features,
    token_features,
    vocabulary_bias,
)


def losses(
    stage: Stage,
    columns: Columns,
    hidden_bsh: torch.Tensor,
    pooled_bmh: torch.Tensor | None,
    weights: Weights,
) -> dict[str, TermLoss]:
    """The loss of every term, by kind of objective; factors of terms are not applied.

    ``hidden`` are the encoder's states, or those that were asked for. ``weights`` has the heads'
    tensors by name and as ``token`` the table (vocab, embedding).
    """
    found: dict[str, TermLoss] = {}
    predicted: tuple[torch.Tensor, torch.Tensor] | None = None
    for term in stage.objective:
        match term.objective:
            case Mlm() | Tlm() as objective:
                if predicted is None:
                    predicted = _predicted(stage.encoder, columns, hidden_bsh, weights)
                found[objective.kind] = _summed(*predicted, columns.asked_by(objective.kind))
            case Clm():
                assert columns.clm is not None, "clm without its columns"
                told = _told(stage.encoder, "clm", columns.clm.targets, hidden_bsh, weights)
                found["clm"] = _summed(*told, columns.clm.weights)
            case Sbo():
                assert columns.sbo is not None, "sbo without its columns"
                around = (columns.states(hidden_bsh, "left"), columns.states(hidden_bsh, "right"))
                found["sbo"] = _sbo_loss(stage.encoder, columns.sbo, around, weights)
            case Nsp() | Sop() as objective:
                assert columns.pairs is not None, "a question about pairs without its columns"
                assert pooled_bmh is not None, "a question about pairs without a pooler"
                found[objective.kind] = _pair_loss(
                    objective.kind, columns.pairs, pooled_bmh, weights
                )
            case _:
                assert_never(term.objective)
    return found


def _token_losses(
    features_ne: torch.Tensor, head: str, targets_bk: torch.Tensor, weights: Weights
) -> tuple[torch.Tensor, torch.Tensor]:
    """The loss of every prediction (n,), and whether its target scored highest (n,)."""
    table_ve, bias_v = weights["token"].to(features_ne.dtype), vocabulary_bias(head, weights)
    return vocabulary_loss(features_ne, table_ve, bias_v, targets_bk.reshape(-1))


def _summed(losses_n: torch.Tensor, hits_n: torch.Tensor, weights_bk: torch.Tensor) -> TermLoss:
    weight_n = weights_bk.reshape(-1)
    return TermLoss((losses_n * weight_n).sum(), weight_n.sum(), (hits_n * weight_n).sum())


def _predicted(
    encoder: Encoder, columns: Columns, hidden_bsh: torch.Tensor, weights: Weights
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of the hidden tokens of all rows, whichever term each row counts for."""
    assert columns.mlm is not None, "hidden tokens without their columns"
    states_bkh = columns.states(hidden_bsh, "mlm")
    return _told(encoder, "mlm", columns.mlm.targets, states_bkh, weights)


def _told(
    encoder: Encoder,
    head: str,
    targets_bk: torch.Tensor,
    states_bkh: torch.Tensor,
    weights: Weights,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of tokens that the encoder's head over the vocabulary tells from states (b, k, h)."""
    states_nh = states_bkh.flatten(0, 1)
    if isinstance(encoder.head, AdaptiveHead):
        return adaptive_loss(encoder, states_nh, targets_bk.reshape(-1), weights, head)
    features_ne = token_features(encoder, states_nh, weights, head)
    return _token_losses(features_ne, head, targets_bk, weights)


def _sbo_loss(
    encoder: Encoder,
    asked: Boundaries,
    around: tuple[torch.Tensor, torch.Tensor],
    weights: Weights,
) -> TermLoss:
    left_nh, right_nh = (states_bkh.flatten(0, 1) for states_bkh in around)
    features_ne = sbo_features(encoder, left_nh, right_nh, asked.place.reshape(-1), weights)
    losses_n, hits_n = _token_losses(features_ne, "sbo", asked.targets, weights)
    return _summed(losses_n, hits_n, asked.weights)


def _pair_loss(
    kind: Literal["nsp", "sop"], asked: Questions, pooled_bmh: torch.Tensor, weights: Weights
) -> TermLoss:
    pooled_nh = pooled_bmh.reshape(-1, pooled_bmh.shape[-1])
    logits_n2 = pair_logits(kind, pooled_nh, weights).float()
    labels_n = asked.labels.reshape(-1)
    losses_n = F.cross_entropy(logits_n2, labels_n, reduction="none")
    return _summed(losses_n, logits_n2.argmax(1) == labels_n, asked.weights)
