"""States and attention of a network's layers beside those of its teacher's.

Axes: b rows, s positions of a row, k tokens of a row that are compared, h hidden, w the teacher's.
"""

from abc import abstractmethod
from typing import Any, Literal, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from bertc.ir.terms.kd import OfLayers
from bertc.ir.terms.kd_layers import KdAttention, KdCls, KdRelated, KdStates, Related
from bertc.learn.objectives import term
from bertc.learn.objectives.softmax.kd import Factors, Relation, relation_loss
from bertc.learn.objectives.targets import MicroBatch, TaskTargets
from bertc.learn.objectives.teaching.kd import Compared, compared_tokens, sum_loss
from bertc.model import EncoderInputs, gather_positions
from bertc.model.attention.masks import mask_of, select_rows
from bertc.model.body import Outputs, Projected
from bertc.model.heads import WidthMaps

NodeT = TypeVar("NodeT", bound=OfLayers)
Layers = tuple[Tensor, ...]
"""Outputs of some layers of a network, or of its teacher."""


class OfLayersTensors(term.TermTensors[NodeT, Any, WidthMaps]):
    """Outputs of some layers, each beside that of one of the teacher's."""

    def targets(self, rows: term.TextRows) -> tuple[EncoderInputs, Compared]:
        """Real tokens, masked ones, or the first one of each example."""
        return rows.reading, compared_tokens(rows, self.node.compares)

    def positions(self, targets: Any, batch: MicroBatch) -> None:
        """None: outputs are read by layer."""

    def taught(self, read: term.HeadInput[Any]) -> tuple[Tensor, ...]:
        return read.states[1:]

    def score(self, targets: Any, read: term.HeadInput[WidthMaps]) -> term.Predicted:
        (output,) = (read.batch.taught or {})[self.node.title]
        tokens = tokens_of(targets, self.node.compares)
        losses = self.compared(read.states[1:], output.tensors, tokens, read)
        if self.node.across == "mean":
            losses = losses / len(self.node.matched)
        return term.Predicted(losses.flatten(), torch.zeros_like(losses).flatten())

    @abstractmethod
    def compared(
        self, mine: Layers, theirs: Layers, tokens: Compared, read: term.HeadInput[WidthMaps]
    ) -> Tensor:
        """The summed losses of all pairs of layers, of each token (b, k) or of all (0-d)."""

    def weights(self, targets: Any) -> Tensor:
        return tokens_of(targets, self.node.compares).weights

    def explain(self, targets: Any, view: term.RowView) -> list[tuple[str, str]]:
        compared = int(self.weights(targets)[view.row].sum())
        related = self.node.related if isinstance(self.node, KdRelated) else ("states",)
        pairs = ", ".join(f"{here} from {there}" for here, there in self.node.matched)
        text = f"{' and '.join(related)} of {compared} tokens, of layers {pairs}"
        return [(self.node.kind, text)]


class KdStatesTensors(OfLayersTensors[KdStates]):
    """States after some layers, each beside one of the teacher's."""

    def taught(self, read: term.HeadInput[Any]) -> tuple[Tensor, ...]:
        """The states of its layers, of compared tokens."""
        tokens = tokens_of(read.batch.terms[self.node.title], self.node.compares)
        return tuple(_at(states, tokens.positions) for states in read.states[1:])

    def compared(
        self, mine: Layers, theirs: Layers, tokens: Compared, read: term.HeadInput[WidthMaps]
    ) -> Float[Tensor, "b k"]:
        """The distances of the vectors of each token."""
        node, positions_bk = self.node, tokens.positions
        here_by_layer = dict(zip(node.wanted(learned=True).states, mine, strict=True))
        there_by_layer = dict(zip(node.wanted(learned=False).states, theirs, strict=True))
        losses_bk = torch.zeros_like(tokens.weights)
        for number, (here, there) in enumerate(node.matched):
            mapped_bkw = read.head.of(number, _at(here_by_layer[here], positions_bk))
            losses_bk = losses_bk + self._distance(mapped_bkw, there_by_layer[there])
        return losses_bk

    def _distance(
        self, here_bkw: Float[Tensor, "b k w"], there_bkw: Float[Tensor, "b k w"]
    ) -> Float[Tensor, "b k"]:
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


class KdRelatedTensors(OfLayersTensors[KdRelated]):
    """Rows of scaled products between the tokens of a layer, each beside one of the teacher's."""

    def taken(self, outputs: Outputs, *, learned: bool) -> tuple[Tensor, ...]:
        """Queries, keys and values of its layers, one after the other."""
        of = outputs.projections or {}
        layers = self.node.layers_of(learned=learned)
        return tuple(projected for layer in layers for projected in of[layer])

    def compared(
        self, mine: Layers, theirs: Layers, tokens: Compared, read: term.HeadInput[WidthMaps]
    ) -> Float[Tensor, ""]:
        """The losses of all tokens that count, of all relations together."""
        node, positions_bk = self.node, tokens.positions
        allowed = mask_of(read.batch.reading).allowed
        if allowed is None:
            allowed = torch.ones_like(read.batch.originals[:1, None, None], dtype=torch.bool)
        if positions_bk is not None:
            allowed = select_rows(allowed, positions_bk)
        here_by_layer = _by_layer(mine, node.layers_of(learned=True))
        there_by_layer = _by_layer(theirs, node.layers_of(learned=False))
        summed = tokens.weights.new_zeros((), dtype=torch.float32)
        for here, there in node.matched:
            heads = node.split(read.network.node, here)
            how = Relation("kl", "probabilities", heads)
            if isinstance(node, KdAttention):
                how = Relation(node.loss, node.of, heads, node.zero_below)
            both = here_by_layer[here], there_by_layer[there]
            for which in node.related:
                own, taught = (_factors(which, projected, positions_bk) for projected in both)
                summed = summed + relation_loss(own, taught, allowed, tokens.weights, how)
        return summed

    def loss(self, predicted: term.Predicted, targets: Any) -> term.TermLoss:
        """The sum as it is: nothing is right or wrong."""
        return sum_loss(predicted, self.weights(targets))


def _at(states_bsh: Float[Tensor, "b s h"], positions_bk: Int[Tensor, "b k"] | None) -> Tensor:
    """States at some positions, None: all."""
    return states_bsh if positions_bk is None else gather_positions(states_bsh, positions_bk)


def _by_layer(outputs: tuple[Tensor, ...], layers: tuple[int, ...]) -> dict[int, Projected]:
    return {layer: Projected(*outputs[3 * n : 3 * n + 3]) for n, layer in enumerate(layers)}


def _factors(which: Related, of: Projected, positions_bk: Int[Tensor, "b k"] | None) -> Factors:
    """The factors of a relation; queries are those at some positions, None: all."""
    left_bsw = right_bsw = of.queries if which == "attention" else getattr(of, which)
    if which == "attention":
        right_bsw = of.keys
    left_bsw = _at(left_bsw, positions_bk)
    # The compiler traces no function that is given one tensor twice.
    return Factors(left_bsw, right_bsw.view_as(right_bsw))


def tokens_of(targets: Compared | TaskTargets, of: Literal["all", "masked", "first"]) -> Compared:
    """The tokens that are compared, of text or of the examples of a task."""
    if isinstance(targets, Compared):
        return targets
    if of == "all":
        return Compared((targets.examples > 0).float(), None)
    return Compared(targets.weights, targets.positions)
