"""From a batch of text to what one stage asks of the encoder.

Axes: b rows, s positions of a row, m examples of a row.
"""

from typing import assert_never

import torch

from bertc.ir import address
from bertc.ir.objective import Mlm, Nsp, Rtd, Sbo, Sop
from bertc.ir.resolved import Stage
from bertc.nn import Reading
from bertc.objectives.columns import Columns, Inputs, Predictions, Questions, Tables
from bertc.objectives.mlm import mask_tokens
from bertc.objectives.rtd import choose_replaced, draw_replacements
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
    masks: Predictions | None = None
    boundary: Sbo | None = None
    pairs: Questions | None = None
    replacing: Rtd | None = None
    choice = stage.choice()
    if choice:
        token_ids_bs, masks = mask_tokens(choice, inputs, real_bs, tables, key)
    for term in stage.objective:
        match term.objective:
            case Mlm():
                pass  # it is the choice
            case Sbo() as objective:
                boundary = objective
            case Nsp() | Sop():
                pairs = _ask(inputs)
            case Rtd() as objective:
                replacing = objective
            case _:
                assert_never(term.objective)
    reading = Reading(
        token_ids=token_ids_bs,
        segment_ids=inputs.segment_ids,
        attention_mask=real_bs if stage.padded and not stage.pack else None,
        sequence_ids=_number(inputs, real_bs) if stage.pack else None,
    )
    columns = Columns(
        reading=reading,
        originals=inputs.token_ids,
        pairs=pairs,
        mlm=masks,
        sbo=find_boundaries(boundary, inputs, masks) if boundary and masks else None,
    )
    if replacing and masks:
        rtd = choose_replaced(replacing, inputs, masks, real_bs, key)
        columns = columns._replace(rtd=rtd)
        if stage.generator is None:  # they depend on no network, so they are known already
            others_bk = draw_replacements(stage.replacements, tables, inputs, rtd, key)
            columns = columns._replace(mlm=None).replaced(others_bk)
    if stage.generator is not None:
        columns = columns._replace(
            reading=reading._replace(token_ids=inputs.token_ids), masked=reading
        )
    return asking(stage, columns)


def asking(stage: Stage, columns: Columns) -> Columns:
    """With the positions at which each network's states are read, where those are few."""
    for network in stage.networks():
        if network.asked is None:
            continue
        asked_bk = torch.cat(list(columns.places(network.name).values()), dim=1)
        reading = columns.read_by(network.name)._replace(asked=asked_bk)
        if network.name == "generator":
            columns = columns._replace(masked=reading)
        else:
            columns = columns._replace(reading=reading)
    return columns


def _ask(inputs: Inputs) -> Questions:
    used_bm = inputs.starts < inputs.token_ids.shape[1]
    positions_bm = torch.where(used_bm, inputs.starts, 0)
    return Questions(positions_bm, inputs.pair_labels, used_bm.float())


def _number(inputs: Inputs, real_bs: torch.Tensor) -> torch.Tensor:
    """Which example of its row, from 1, each token (b, s) belongs to; 0 for padding."""
    b, seq = real_bs.shape
    # Places not used mark a column beyond the row, which is dropped.
    begins = torch.zeros(b, seq + 1, dtype=torch.long, device=real_bs.device)
    begins.scatter_(1, inputs.starts, 1)
    return torch.where(real_bs, begins[:, :seq].cumsum(1), 0)
