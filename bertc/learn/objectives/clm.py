"""Causal language modelling: predict the next token at every position.

Axes: b rows, s positions of a row.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import nn

from bertc.ir.terms.clm import Clm
from bertc.learn.objectives.targets import Inputs, MicroBatch, NextTokenTargets
from bertc.learn.objectives.term import HeadInput, Predicted, RowView, TextRows, TokenTensors
from bertc.learn.objectives.vocabulary import token_losses
from bertc.model import EncoderInputs


class ClmTensors(TokenTensors[Clm, NextTokenTargets, nn.Module]):
    """Next-token prediction."""

    def targets(
        self, rows: TextRows, reading: EncoderInputs
    ) -> tuple[EncoderInputs, NextTokenTargets]:
        """The text shifted by one."""
        return reading, next_tokens(rows.inputs, reading.sequence_ids)

    def positions(self, targets: NextTokenTargets, batch: MicroBatch) -> None:
        """None: all positions."""

    def score(self, targets: NextTokenTargets, read: HeadInput[nn.Module]) -> Predicted:
        """Scores over the vocabulary."""
        return token_losses(read.states[0], targets.targets, read.head, read.network)

    def explain(self, targets: NextTokenTargets, view: RowView) -> list[tuple[str, str]]:
        """The number of predicted tokens."""
        count = int(targets.weights[view.row].sum())
        return [("clm", f"{count} tokens predicted from those before")]


def next_tokens(
    inputs: Inputs, sequence_ids_bs: Int[torch.Tensor, "b s"] | None
) -> NextTokenTargets:
    """Targets (b, s): the next token of the same row and example."""
    goes_on_b1 = inputs.following[:, None] >= 0
    after_b1 = inputs.following[:, None].clamp(min=0)
    targets_bs = torch.cat([inputs.token_ids[:, 1:], after_b1], dim=1)
    lane_s = torch.arange(targets_bs.shape[1], device=targets_bs.device)
    told_bs = lane_s < inputs.lengths[:, None] - (~goes_on_b1).long()
    if sequence_ids_bs is not None:
        told_bs = told_bs & F.pad(sequence_ids_bs.diff(dim=1) == 0, (0, 1), value=True)
    return NextTokenTargets(targets_bs, told_bs.float())
