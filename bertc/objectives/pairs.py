"""Classification of segment pairs (nsp, sop), with labels from the data.

Axes: b rows, m examples of a row, n = b*m, h hidden.
"""

import torch
import torch.nn.functional as F

from bertc.ir.terms.pairs import PairTerm
from bertc.nn import EncoderInputs
from bertc.nn.body import BodyModule
from bertc.nn.weights import Linear
from bertc.objectives.targets import MicroBatch, PairTargets
from bertc.objectives.term import Predicted, TermTensors, TextRows


class PairTensors(TermTensors[PairTerm, PairTargets, Linear]):
    """Binary classification of the pooled first token of each example."""

    def targets(self, rows: TextRows, reading: EncoderInputs) -> tuple[EncoderInputs, PairTargets]:
        """The pair label of each example."""
        inputs = rows.inputs
        used_bm = inputs.starts < inputs.token_ids.shape[1]
        positions_bm = torch.where(used_bm, inputs.starts, 0)
        return reading, PairTargets(positions_bm, inputs.pair_labels, used_bm.float())

    def positions(self, own: PairTargets, batch: MicroBatch) -> tuple[torch.Tensor, ...]:
        """Position (b, m) of the first token of each example."""
        return (own.positions,)

    def score(
        self,
        states: tuple[torch.Tensor, ...],
        own: PairTargets,
        batch: MicroBatch,
        head: Linear,
        network: BodyModule,
        chances: torch.Tensor | None,
    ) -> Predicted:
        """Linear scores of the pooled states."""
        pooled_bmh = network.pool(states[0], batch.reading)
        logits_n2 = head(pooled_bmh.reshape(-1, pooled_bmh.shape[-1])).float()
        labels_n = own.labels.reshape(-1)
        losses_n = F.cross_entropy(logits_n2, labels_n, reduction="none")
        return Predicted(losses_n, logits_n2.argmax(1) == labels_n, labels=labels_n)

    def weights(self, own: PairTargets) -> torch.Tensor:
        """1 (b, m) where there is an example, else 0."""
        return own.weights

    def explain_example(self, own: PairTargets, row: int, nth: int) -> list[tuple[str, str]]:
        """The correct answer."""
        label = int(own.labels[row, nth])
        return [(self.node.kind, f"{label}, {self.node.answers[label]}")]
