"""A term of the user's own: the loss of each row, from its states and tokens.

Axes: b rows, s positions of a row.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from bertc.ir.terms.own import OwnTerm
from bertc.learn.objectives.targets import MicroBatch
from bertc.learn.objectives.term import HeadInput, Predicted, TermTensors, TextRows
from bertc.model import EncoderInputs
from bertc.model.own import call_own


class RowTargets(NamedTuple):
    """The tokens of rows; weight 0 where there are none."""

    real: Bool[Tensor, "b s"]  # False at padding
    weights: Float[Tensor, "b"]  # 1 or 0


class OwnTensors(TermTensors[OwnTerm, RowTargets, nn.Module]):
    """One loss of each row, neither right nor wrong."""

    def targets(self, rows: TextRows) -> tuple[EncoderInputs, RowTargets]:
        return rows.reading, RowTargets(rows.real, rows.real.any(1).float())

    def positions(self, targets: RowTargets, batch: MicroBatch) -> None:
        """None: all states."""

    def score(self, targets: RowTargets, read: HeadInput[nn.Module]) -> Predicted:
        originals, seen = read.batch.originals, read.batch.reading.token_ids
        known = {"tokens": originals, "inputs": seen, "real": targets.real}
        named = {name: known[name] for name in self.node.reads}
        losses_b = call_own(read.head, read.states[0], **named).float()
        # A row without tokens may have a loss that is no number.
        losses_b = losses_b.where(targets.weights > 0, 0.0)
        return Predicted(losses_b, torch.zeros_like(losses_b))
