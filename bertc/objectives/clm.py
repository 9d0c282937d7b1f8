"""Which token comes after each token of a row.

Axes: b rows, s positions of a row.
"""

import torch
import torch.nn.functional as F

from bertc.objectives.targets import Inputs, NextTokens


def next_tokens(inputs: Inputs, sequence_ids_bs: torch.Tensor | None) -> NextTokens:
    """What every token is to tell: the one after it, in its row and in its own example.

    The last token of a row tells what follows the row, where the text goes on.
    """
    goes_on_b1 = inputs.following[:, None] >= 0
    after_b1 = inputs.following[:, None].clamp(min=0)
    targets_bs = torch.cat([inputs.token_ids[:, 1:], after_b1], dim=1)
    lane_s = torch.arange(targets_bs.shape[1], device=targets_bs.device)
    told_bs = lane_s < inputs.lengths[:, None] - (~goes_on_b1).long()
    if sequence_ids_bs is not None:
        told_bs = told_bs & F.pad(sequence_ids_bs.diff(dim=1) == 0, (0, 1), value=True)
    return NextTokens(targets_bs, told_bs.float())
