"""From a batch of text to what one stage asks of the encoder."""

from typing import assert_never

import torch

from bertc.ir import address
from bertc.ir.objective import Mlm, Nsp, Sbo, Sop
from bertc.ir.resolved import Stage
from bertc.objectives.columns import Columns, Inputs, Predictions, Tables
from bertc.objectives.mlm import mask_tokens
from bertc.objectives.sbo import find_boundaries


def mask_key(seed: int) -> int:
    """The key of all masking in a run with this seed."""
    return address.key(seed, "mask")


def corrupt(stage: Stage, inputs: Inputs, tables: Tables, key: int) -> Columns:
    """The columns of a batch: ids to read, tokens to predict, questions about pairs.

    A pure function of each row, its copy number, its example id and ``key``, which is
    ``mask_key(seed)``: rows do not see each other. All shapes follow from (batch, seq) and stage.
    """
    lane_s = torch.arange(inputs.token_ids.shape[1], device=inputs.token_ids.device)
    real_bs = lane_s < inputs.lengths[:, None]
    token_ids_bs = inputs.token_ids
    mlm: Predictions | None = None
    boundary: Sbo | None = None
    for term in stage.objective:
        match term.objective:
            case Mlm() as objective:
                token_ids_bs, mlm = mask_tokens(objective, inputs, real_bs, tables, key)
            case Sbo() as objective:
                boundary = objective
            case Nsp() | Sop():
                pass  # their labels come with the rows
            case _:
                assert_never(term.objective)
    return Columns(
        token_ids=token_ids_bs,
        segment_ids=inputs.segment_ids,
        attention_mask=real_bs if stage.padded else None,
        originals=inputs.token_ids,
        pair_labels=inputs.pair_labels,
        mlm=mlm,
        sbo=find_boundaries(boundary, inputs, mlm) if boundary and mlm else None,
    )
