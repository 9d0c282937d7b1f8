"""Causal language modelling: predict the next token at every position.

Axes: b rows, s positions of a row.
"""

import torch
import torch.nn.functional as F
from torch import nn

from bertc.ir.terms.clm import Clm
from bertc.learn.objectives.targets import NextTokenTargets
from bertc.learn.objectives.term import RowView, TextRows, TokenTensors
from bertc.model import EncoderInputs


class ClmTensors(TokenTensors[Clm, NextTokenTargets, nn.Module]):
    """Next-token prediction."""

    def targets(self, rows: TextRows) -> tuple[EncoderInputs, NextTokenTargets]:
        """The next token of the same row and example (b, s)."""
        inputs, sequence_ids_bs = rows.inputs, rows.reading.sequence_ids
        goes_on_b1 = inputs.following[:, None] >= 0
        after_b1 = inputs.following[:, None].clamp(min=0)
        targets_bs = torch.cat([inputs.token_ids[:, 1:], after_b1], dim=1)
        lane_s = torch.arange(targets_bs.shape[1], device=targets_bs.device)
        told_bs = lane_s < inputs.lengths[:, None] - (~goes_on_b1).long()
        if sequence_ids_bs is not None:
            told_bs = told_bs & F.pad(sequence_ids_bs.diff(dim=1) == 0, (0, 1), value=True)
        return rows.reading, NextTokenTargets(targets_bs, told_bs.float())

    def explain(self, targets: NextTokenTargets, view: RowView) -> list[tuple[str, str]]:
        count = int(targets.weights[view.row].sum())
        return [("clm", f"{count} tokens predicted from those before")]
