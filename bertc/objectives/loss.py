"""The loss of each term of a stage, as sums that can be added over parts of a batch.

Axes: b rows, s positions, m examples of a row, k predictions of a row, n = b*k, h hidden.
"""

from typing import Literal, assert_never

import torch
import torch.nn.functional as F

from bertc.ir.encoder import Encoder
from bertc.ir.objective import Mlm, Nsp, Sbo, Sop
from bertc.ir.resolved import Stage
from bertc.objectives.columns import Boundaries, Columns, Predictions, Questions, TermLoss
from bertc.objectives.cross_entropy import vocabulary_loss
from bertc.objectives.heads import Weights, mlm_features, pair_logits, sbo_features


def losses(
    stage: Stage,
    encoder: Encoder,
    columns: Columns,
    hidden_bsh: torch.Tensor,
    pooled_bmh: torch.Tensor | None,
    weights: Weights,
) -> dict[str, TermLoss]:
    """The loss of every term, by kind of objective; factors of terms are not applied.

    ``weights`` has the heads' tensors by name and as ``token`` the table (vocab, embedding).
    """
    found: dict[str, TermLoss] = {}
    for term in stage.objective:
        match term.objective:
            case Mlm():
                assert columns.mlm is not None, "mlm without its columns"
                found["mlm"] = _mlm_loss(encoder, columns.mlm, hidden_bsh, weights)
            case Sbo():
                assert columns.sbo is not None, "sbo without its columns"
                found["sbo"] = _sbo_loss(encoder, columns.sbo, hidden_bsh, weights)
            case Nsp() | Sop() as objective:
                assert columns.pairs is not None, "a question about pairs without its columns"
                assert pooled_bmh is not None, "a question about pairs without a pooler"
                found[objective.kind] = _pair_loss(
                    objective.kind, columns.pairs, pooled_bmh, weights
                )
            case _:
                assert_never(term.objective)
    return found


def _rows_at(hidden_bsh: torch.Tensor, positions_bk: torch.Tensor) -> torch.Tensor:
    """The hidden states (n, h) at positions (b, k)."""
    b, s, h = hidden_bsh.shape
    first_b = torch.arange(b, device=hidden_bsh.device) * s
    rows_n = (first_b[:, None] + positions_bk).reshape(-1)
    return hidden_bsh.reshape(b * s, h).index_select(0, rows_n)


def _token_loss(
    features_ne: torch.Tensor,
    bias_v: torch.Tensor,
    asked: Predictions | Boundaries,
    weights: Weights,
) -> TermLoss:
    table_ve = weights["token"].to(features_ne.dtype)
    losses_n, hits_n = vocabulary_loss(features_ne, table_ve, bias_v, asked.targets.reshape(-1))
    weight_n = asked.weights.reshape(-1)
    return TermLoss((losses_n * weight_n).sum(), weight_n.sum(), (hits_n * weight_n).sum())


def _mlm_loss(
    encoder: Encoder, asked: Predictions, hidden_bsh: torch.Tensor, weights: Weights
) -> TermLoss:
    hidden_nh = _rows_at(hidden_bsh, asked.positions)
    features_ne = mlm_features(encoder, hidden_nh, weights)
    return _token_loss(features_ne, weights["mlm.bias"], asked, weights)


def _sbo_loss(
    encoder: Encoder, asked: Boundaries, hidden_bsh: torch.Tensor, weights: Weights
) -> TermLoss:
    left_nh, right_nh = _rows_at(hidden_bsh, asked.left), _rows_at(hidden_bsh, asked.right)
    features_ne = sbo_features(encoder, left_nh, right_nh, asked.place.reshape(-1), weights)
    return _token_loss(features_ne, weights["sbo.bias"], asked, weights)


def _pair_loss(
    kind: Literal["nsp", "sop"], asked: Questions, pooled_bmh: torch.Tensor, weights: Weights
) -> TermLoss:
    pooled_nh = pooled_bmh.reshape(-1, pooled_bmh.shape[-1])
    logits_n2 = pair_logits(kind, pooled_nh, weights).float()
    labels_n, weight_n = asked.labels.reshape(-1), asked.weights.reshape(-1)
    losses_n = F.cross_entropy(logits_n2, labels_n, reduction="none")
    hits_n = logits_n2.argmax(1) == labels_n
    return TermLoss((losses_n * weight_n).sum(), weight_n.sum(), (hits_n * weight_n).sum())
