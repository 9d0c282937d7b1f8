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
from bertc.nn.bilstm import row_vector, text_spans
from bertc.nn.body import LAST_STATES, BodyModule, Outputs
from bertc.nn.dropout import dropout
from bertc.nn.embeddings import Tokens, build_tokens
from bertc.nn.inputs import EncoderInputs, gather_positions
from bertc.nn.weights import Embedding, Linear


class Bag(BodyModule):
    """Token ids (b, s) to their vectors (b, s, h), and those of a row to one (b, 1, p)."""

    node: BagBody

    def __init__(self, node: BagBody) -> None:
        super().__init__()
        table = {weight.name: weight for weight in node.weights()}
        self.node = node
        self.embeddings = nn.ModuleDict({"token": build_tokens(table, node)})
        if node.bag.pool == "weighted":
            self.embeddings["scale"] = Embedding(table, "embeddings.scale")
        self.pooler = Linear(table, "pooler") if node.pooler else None

    @property
    def tokens(self) -> Tokens:
        """The one table."""
        token = self.embeddings["token"]
        assert isinstance(token, Tokens), "it is made so"
        return token

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

    def pool(
        self, first_h: Float[torch.Tensor, "b s h"], inputs: EncoderInputs | None = None
    ) -> Float[torch.Tensor, "b 1 p"]:
        """One vector a row, of the means of its texts."""
        assert inputs is not None, "the states of a row are of its texts"
        texts = text_spans(inputs, self.node.texts)
        within_bts = texts.within().to(first_h.dtype)
        counts_bt1 = texts.lengths.clamp(min=1)[..., None]
        row_bh = row_vector((within_bts @ first_h) / counts_bt1)
        pooled_bp = row_bh if self.pooler is None else torch.relu(self.pooler(row_bh))
        return pooled_bp[:, None]

    def borrow(self, lender: BodyModule, names: Iterable[str]) -> None:
        """Nothing is tied to it: only a transformer's generator shares tables."""
        raise ValueError("a bag shares no weights with another network")

    def shard_units(self) -> Iterable[nn.Module]:
        """Nothing: there are no layers."""
        return ()

    def compile_regions(self, *, any_shape: bool = False) -> None:
        """Nothing: a lookup and a mean leave no work to a compiler."""
