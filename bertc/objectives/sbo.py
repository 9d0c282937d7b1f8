"""The span boundary objective: which tokens are told from the two around their span.

Axes: b examples, k predictions.
"""

import torch
import torch.nn.functional as F

from bertc.ir.learning.objective import Sbo
from bertc.objectives.selection import runs
from bertc.objectives.targets import Boundaries, Inputs, Predictions, Tables
from bertc.objectives.words import read_text


def find_boundaries(
    objective: Sbo, inputs: Inputs, real_bs: torch.Tensor, masked: Predictions, tables: Tables
) -> Boundaries:
    """The pairs of a batch, slot by slot beside the predictions they go with.

    Spans are unbroken runs of predictions, so the tokens around them are never masked. Of each
    the first ``max_targets`` tokens are asked for; a span at an end of its text, which has a
    special token beside it, has none (SpanBERT, masking.py and no_nsp_span_bert_dataset.py).
    """
    used_bk = masked.weights > 0
    first_bk, last_bk = runs(masked.positions, used_bk)
    start_bk = masked.positions.gather(1, first_bk)
    end_bk = masked.positions.gather(1, last_bk)
    place_bk = masked.positions - start_bk
    # Position i is lane i + 1, so that there is one beside either end of a row.
    ordinary_bs = F.pad(read_text(inputs.token_ids, real_bs, tables, False).ordinary, (1, 1))
    asked_bk = (
        used_bk
        & (place_bk < objective.max_targets)
        & ordinary_bs.gather(1, start_bk)
        & ordinary_bs.gather(1, end_bk + 2)
    )
    return Boundaries(
        torch.where(asked_bk, start_bk - 1, 0),
        torch.where(asked_bk, end_bk + 1, 0),
        torch.where(asked_bk, place_bk, 0),
        masked.targets,
        asked_bk.float(),
    )
