"""The residual stream: sums of earlier outputs that parts read, weighted by learned numbers.

Axes: b batch, q queries, h hidden, j outputs.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bertc.ir.network.encoder import Encoder
from bertc.ir.network.residual import stream_name
from bertc.ir.network.sharing import SharedPart
from bertc.model.inputs import gather_positions


class Earlier(NamedTuple):
    """A sum (b, q, h) of earlier outputs, and the number of that of attention, added to it."""

    states: Tensor
    number: Float[Tensor, ""]


class Stream:
    """The outputs of a forward pass so far, from the embeddings ``x`` (b, q, h) on.

    ``numbers`` are the learned ones by name; those of outputs that no part reads again are let go.
    """

    def __init__(self, node: Encoder, numbers: Mapping[str, Tensor], x: Tensor) -> None:
        self.kind, self.depth, self.numbers = node.residual, node.depth, numbers
        self.outputs = [x]

    def read(self, layer: int) -> Float[Tensor, "b q h"]:
        """The states that attention of a layer reads; of one beyond the last, the last norm."""
        sources = self.kind.sources(layer, "attention", self.depth)
        return self._sum(sources, self._shares(layer, "attention")) if sources else self.outputs[-1]

    def earlier(self, layer: int) -> Earlier | None:
        """Earlier outputs that the layer mixes in itself, if any."""
        sources = self.kind.sources(layer, "ffn", self.depth)
        if not sources:
            return None
        *shares, newest = self._shares(layer, "ffn")
        return Earlier(self._sum(sources[:-1], shares), newest)

    def select(self, positions_bo: Int[Tensor, "b o"]) -> None:
        """Go on with the outputs at these positions (b, o) alone."""
        if self.kind.by_part:
            self.outputs = [gather_positions(x, positions_bo) for x in self.outputs]

    def add(self, between: Tensor | None, x: Tensor) -> None:
        """Take up the output of a layer, and that of its attention if needed."""
        if not self.kind.keeps_outputs:
            self.outputs.clear()
        self.outputs += [x] if between is None else [between, x]

    def _shares(self, layer: int, part: SharedPart) -> tuple[Float[Tensor, ""], ...]:
        numbers_j = self.numbers[stream_name(layer, part, self.depth)]
        return (numbers_j.softmax(0) if self.kind.softmax else numbers_j).unbind()

    def _sum(self, sources: tuple[int, ...], shares: Sequence[Tensor]) -> Tensor:
        total: Tensor | None = None
        for source, share in zip(sources, shares, strict=True):
            x = self.outputs[source]
            total = x * share if total is None else torch.addcmul(total, x, share)
        assert total is not None, "a sum has sources"
        return total
