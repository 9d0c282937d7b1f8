"""States of a network beside those of its teacher.

Axes: b rows, s positions of a row, k tokens of a row that are compared, h hidden, w the teacher's.
"""

from typing import Any, assert_never

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import nn

from bertc.ir.terms.kd_states import KdCls, KdStates
from bertc.nn import EncoderInputs, gather_positions
from bertc.nn.body import BodyModule
from bertc.nn.heads import WidthMaps
from bertc.objectives.kd import Compared, compared_tokens
from bertc.objectives.targets import MicroBatch, TaskTargets
from bertc.objectives.term import Predicted, RowView, TermTensors, TextRows


class KdStatesTensors(TermTensors[KdStates, Any, WidthMaps]):
    """States after some layers, each beside one of the teacher's."""

    def targets(self, rows: TextRows, reading: EncoderInputs) -> tuple[EncoderInputs, Compared]:
        """Real tokens, masked ones, or the first one of each example."""
        return reading, compared_tokens(rows, self.node.compares)

    def positions(self, own: Any, batch: MicroBatch) -> None:
        """None: states are read by layer."""

    def taught(
        self, states: tuple[torch.Tensor, ...], head: nn.Module | None, network: BodyModule
    ) -> tuple[torch.Tensor, ...]:
        """The states of its layers."""
        return states[1:]

    def score(
        self,
        states: tuple[torch.Tensor, ...],
        own: Any,
        batch: MicroBatch,
        head: WidthMaps,
        network: BodyModule,
        chances: torch.Tensor | None,
    ) -> Predicted:
        """The loss of each token, of all layers together."""
        (lesson,) = (batch.taught or {})[self.node.title]
        node, own = self.node, self._compared(own)
        mine = dict(zip(node.wanted(learned=True).states, states[1:], strict=True))
        theirs = dict(zip(node.wanted(learned=False).states, lesson.tensors, strict=True))
        losses_bk = torch.zeros_like(own.weights)
        for number, (here, there) in enumerate(node.matched):
            here_bkh, there_bkw = (
                each if own.positions is None else gather_positions(each, own.positions)
                for each in (mine[here], theirs[there])
            )
            losses_bk = losses_bk + self._distance(head.of(number, here_bkh), there_bkw)
        if node.across == "mean":
            losses_bk = losses_bk / len(node.matched)
        return Predicted(losses_bk.flatten(), torch.zeros_like(losses_bk).flatten())

    def _distance(
        self, here_bkw: Float[torch.Tensor, "b k w"], there_bkw: Float[torch.Tensor, "b k w"]
    ) -> Float[torch.Tensor, "b k"]:
        """The distance of two vectors, in fp32."""
        here_bkw, there_bkw = here_bkw.float(), there_bkw.float()
        if isinstance(self.node, KdCls) and self.node.normalize:
            here_bkw, there_bkw = F.normalize(here_bkw, dim=2), F.normalize(there_bkw, dim=2)
        match self.node.loss:
            case "cosine":
                return 1 - F.cosine_similarity(here_bkw, there_bkw, dim=2)
            case "mse":
                squared_bkw = (here_bkw - there_bkw).square()
                return squared_bkw.mean(2) if self.node.elements == "mean" else squared_bkw.sum(2)
            case _:
                assert_never(self.node.loss)

    def weights(self, own: Any) -> torch.Tensor:
        """1 at compared tokens, else 0."""
        return self._compared(own).weights

    def _compared(self, own: Compared | TaskTargets) -> Compared:
        """The tokens that are compared, of text or of the examples of a task."""
        if isinstance(own, Compared):
            return own
        if self.node.compares == "all":
            return Compared((own.examples > 0).float(), None)
        return Compared(own.weights, own.positions)

    def explain(self, own: Any, view: RowView) -> list[tuple[str, str]]:
        """The number of compared tokens, and the pairs of layers."""
        compared = int(own.weights[view.row].sum())
        pairs = ", ".join(f"{here} from {there}" for here, there in self.node.matched)
        return [(self.node.kind, f"states of {compared} tokens, of layers {pairs}")]
