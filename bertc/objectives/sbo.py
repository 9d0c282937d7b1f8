"""The span boundary objective: which tokens are told from the two around their span.

Axes: b examples, k predictions.
"""

import torch

from bertc.ir.objective import Sbo
from bertc.objectives.columns import Boundaries, Inputs, Predictions
from bertc.objectives.selection import runs


def find_boundaries(objective: Sbo, inputs: Inputs, masked: Predictions) -> Boundaries:
    """The pairs of a batch, slot by slot beside the predictions they go with.

    Spans are unbroken runs of predictions, so the tokens around them are never masked. Of each
    the first ``max_targets`` tokens are asked for; a span without a token on either side has none
    (SpanBERT, masking.py and no_nsp_span_bert_dataset.py).
    """
    used_bk = masked.weights > 0
    first_bk, last_bk = runs(masked.positions, used_bk)
    start_bk = masked.positions.gather(1, first_bk)
    end_bk = masked.positions.gather(1, last_bk)
    place_bk = masked.positions - start_bk
    asked_bk = (
        used_bk
        & (place_bk < objective.max_targets)
        & (start_bk > 0)
        & (end_bk + 1 < inputs.lengths[:, None])
    )
    return Boundaries(
        torch.where(asked_bk, start_bk - 1, 0),
        torch.where(asked_bk, end_bk + 1, 0),
        torch.where(asked_bk, place_bk, 0),
        masked.targets,
        asked_bk.float(),
    )
