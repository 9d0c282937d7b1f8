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
from bertc.learn.objectives.teaching.kd import Compared, compared_tokens
from bertc.model import EncoderInputs, Outputs, Projected, WidthMaps, gather_positions
from bertc.model.attention.masks import mask_of, select_rows

NodeT = TypeVar("NodeT", bound=OfLayers)
Layers = tuple[Tensor, ...]
"""Outputs of some layers of a network, or of its teacher."""


class OfLayersTensors(term.TermTensors[NodeT, Any, WidthMaps]):
    """Outputs of some layers, each beside that of one of the teacher's."""

    def targets(self, rows: term.TextRows) -> tuple[EncoderInputs, Compared]:
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
        self, mine: Layers, taught: Layers, tokens: Compared, read: term.HeadInput[WidthMaps]
    ) -> Tensor:
        """The summed losses of all pairs of layers, of each token (b, k) or of all (0-d)."""

    def weights(self, targets: Any) -> Tensor:
        return tokens_of(targets, self.node.compares).weights

    def explain(self, targets: Any, view: term.RowView) -> list[tuple[str, str]]:
        compared = int(self.weights(targets)[view.row].sum())
        related = self.node.related if isinstance(self.node, KdRelated) else ("states",)
        pairs = ", ".join(f"{layer} from {taught}" for layer, taught in self.node.matched)
        text = f"{' and '.join(related)} of {compared} tokens, of layers {pairs}"
        return [(self.node.kind, text)]


class KdStatesTensors(OfLayersTensors[KdStates]):
    """States after some layers, each beside one of the teacher's."""

    def taught(self, read: term.HeadInput[Any]) -> tuple[Tensor, ...]:
        tokens = tokens_of(read.batch.terms[self.node.title], self.node.compares)
        return tuple(_at(states, tokens.positions) for states in read.states[1:])

    def compared(
        self, mine: Layers, taught: Layers, tokens: Compared, read: term.HeadInput[WidthMaps]
    ) -> Float[Tensor, "b k"]:
        node, positions_bk = self.node, tokens.positions
        own_by_layer = dict(zip(node.wanted(learned=True).states, mine, strict=True))
        taught_by_layer = dict(zip(node.wanted(learned=False).states, taught, strict=True))
        losses_bk = torch.zeros_like(tokens.weights)
        for number, (layer, taught_layer) in enumerate(node.matched):
            mapped_bkw = read.head.of(number, _at(own_by_layer[layer], positions_bk))
            losses_bk = losses_bk + self._distance(mapped_bkw, taught_by_layer[taught_layer])
        return losses_bk

    def _distance(
        self, own_bkw: Float[Tensor, "b k w"], taught_bkw: Float[Tensor, "b k w"]
    ) -> Float[Tensor, "b k"]:
        own_bkw, taught_bkw = own_bkw.float(), taught_bkw.float()
        if isinstance(self.node, KdCls) and self.node.normalize:
            own_bkw, taught_bkw = F.normalize(own_bkw, dim=2), F.normalize(taught_bkw, dim=2)
        match self.node.loss:
            case "cosine":
                return 1 - F.cosine_similarity(own_bkw, taught_bkw, dim=2)
            case "mse":
                squared_bkw = (own_bkw - taught_bkw).square()
                return squared_bkw.mean(2) if self.node.elements == "mean" else squared_bkw.sum(2)


class KdRelatedTensors(OfLayersTensors[KdRelated]):
    """Rows of scaled products between the tokens of a layer, each beside one of the teacher's."""

    sums_up = True

    def taken(self, outputs: Outputs, *, learned: bool) -> tuple[Tensor, ...]:
        """Queries, keys and values of its layers, one after the other."""
        by_layer = outputs.projections or {}
        layers = self.node.layers_of(learned=learned)
        return tuple(projected for layer in layers for projected in by_layer[layer])

    def compared(
        self, mine: Layers, taught: Layers, tokens: Compared, read: term.HeadInput[WidthMaps]
    ) -> Float[Tensor, ""]:
        node, positions_bk = self.node, tokens.positions
        allowed = mask_of(read.batch.reading).allowed
        if allowed is None:
            allowed = torch.ones_like(read.batch.originals[:1, None, None], dtype=torch.bool)
        if positions_bk is not None:
            allowed = select_rows(allowed, positions_bk)
        own_by_layer = _by_layer(mine, node.layers_of(learned=True))
        taught_by_layer = _by_layer(taught, node.layers_of(learned=False))
        summed = tokens.weights.new_zeros((), dtype=torch.float32)
        for layer, taught_layer in node.matched:
            heads = node.split(read.network.node, layer)
            how = Relation("kl", "probabilities", heads)
            if isinstance(node, KdAttention):
                how = Relation(node.loss, node.of, heads, node.zero_below)
            both = own_by_layer[layer], taught_by_layer[taught_layer]
            for which in node.related:
                student, teacher = (_factors(which, projected, positions_bk) for projected in both)
                summed = summed + relation_loss(student, teacher, allowed, tokens.weights, how)
        return summed


def _at(states_bsh: Float[Tensor, "b s h"], positions_bk: Int[Tensor, "b k"] | None) -> Tensor:
    """States at some positions, None: all."""
    return states_bsh if positions_bk is None else gather_positions(states_bsh, positions_bk)


def _by_layer(outputs: tuple[Tensor, ...], layers: tuple[int, ...]) -> dict[int, Projected]:
    return {layer: Projected(*outputs[3 * n : 3 * n + 3]) for n, layer in enumerate(layers)}


def _factors(
    which: Related, projected: Projected, positions_bk: Int[Tensor, "b k"] | None
) -> Factors:
    """The factors of a relation; queries are those at some positions, None: all."""
    names = ("queries", "keys") if which == "attention" else (which, which)
    left_bsw, right_bsw = (getattr(projected, name) for name in names)
    # The compiler traces no function that is given one tensor twice.
    return Factors(_at(left_bsw, positions_bk), right_bsw.view_as(right_bsw))


def tokens_of(
    targets: Compared | TaskTargets, which: Literal["all", "masked", "first"]
) -> Compared:
    """The tokens that are compared, of text or of the examples of a task."""
    if isinstance(targets, Compared):
        return targets
    if which == "all":
        return Compared((targets.examples > 0).float(), None)
    return Compared(targets.weights, targets.positions)
