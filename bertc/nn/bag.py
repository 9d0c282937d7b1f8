"""A bag of tokens as a module: a lookup, and means.

Axes: b batch, s sequence, t texts of a row, h hidden, p pooled.
"""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import nn

from bertc.host.parts import profiled_as
from bertc.ir.network.bag import BagBody
from bertc.ir.network.wanted import Wanted
from bertc.nn.body import LAST_STATES, Outputs
from bertc.nn.dropout import dropout
from bertc.nn.inputs import EncoderInputs, gather_positions
from bertc.nn.row_pooling import RowPoolingModule, TextSpans
from bertc.nn.weights import Embedding, Linear


class Bag(RowPoolingModule):
    """Token ids (b, s) to their vectors (b, s, h), and those of a row to one (b, 1, p)."""

    node: BagBody

    def __init__(self, node: BagBody) -> None:
        super().__init__(node)
        table = {weight.name: weight for weight in node.weights()}
        if node.bag.pool == "weighted":
            self.embeddings["scale"] = Embedding(table, "embeddings.scale")
        self.pooler = Linear(table, "pooler") if node.pooler else None

    def forward(
        self, inputs: EncoderInputs, dtype: torch.dtype, wanted: Wanted = LAST_STATES
    ) -> Outputs:
        """Vectors of tokens (b, s, h), or of those at output positions (b, o, h)."""
        with profiled_as("embeddings"):
            x_bsh = self.tokens(inputs.token_ids).to(dtype)
            if "scale" in self.embeddings:
                x_bsh = x_bsh * self.embeddings["scale"](inputs.token_ids).to(dtype)
            x_bsh = dropout(x_bsh, self.node.dropout.hidden, self.training)
        by_layer = {0: x_bsh} if 0 in wanted.states else {}
        if inputs.output_positions is not None:
            x_bsh = gather_positions(x_bsh, inputs.output_positions)
        return Outputs(x_bsh, by_layer=by_layer)

    def text_vectors(
        self, states_bsd: Float[torch.Tensor, "b s d"], texts: TextSpans
    ) -> Float[torch.Tensor, "b t d"]:
        """The mean of each text."""
        within_bts = texts.within().to(states_bsd.dtype)
        counts_bt1 = texts.lengths.clamp(min=1)[..., None]
        return (within_bts @ states_bsd) / counts_bt1

    def shard_units(self) -> Iterable[nn.Module]:
        """Nothing: there are no layers."""
        return ()
