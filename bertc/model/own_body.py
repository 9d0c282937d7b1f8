"""A body of the user's own as a module, above a token table.

Axes: b batch, s sequence, h hidden.
"""

from collections.abc import Callable, Iterable
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bertc.ir.network.body_node import Wanted
from bertc.ir.network.own_body import NAME, OwnBodyNode
from bertc.model.body import LAST, BodyAboveTable, Outputs, profile_as
from bertc.model.heads import Pooler
from bertc.model.inputs import EncoderInputs, gather_positions
from bertc.model.native.kernels import dropout
from bertc.model.own import OwnModule


class OwnBody(BodyAboveTable):
    """Token ids (b, s) to states (b, s, h)."""

    node: OwnBodyNode

    def __init__(self, node: OwnBodyNode) -> None:
        table = {weight.name: weight for weight in node.weights()}
        super().__init__(node, table)
        self.recurrence = nn.ModuleList([OwnModule(table, NAME, node.own)])
        self.pooler = Pooler(table, node) if node.pooler else None

    def forward(self, inputs: EncoderInputs, dtype: torch.dtype, request: Wanted = LAST) -> Outputs:
        """States (b, s, h), or at output positions (b, o, h)."""
        rate, ids_bs, real_bs = self.node.dropout, inputs.token_ids, inputs.attention_mask
        with profile_as("embeddings"):
            x_bsh = dropout(self.tokens(ids_bs).to(dtype), rate.hidden, self.training)
        by_layer = {0: x_bsh} if 0 in request.states else {}
        if request.whole_layers(1):
            real_bs = torch.ones_like(ids_bs) if real_bs is None else real_bs
            call: Callable[..., Tensor] = self.recurrence[0]
            if self.recompute and torch.is_grad_enabled():
                call = partial(checkpoint, call, use_reentrant=False)
            with profile_as("recurrence"):
                x_bsh = call(x_bsh, real_bs.bool())
        by_layer |= {1: x_bsh} if 1 in request.states else {}
        x_bsh = dropout(x_bsh, rate.last, self.training)
        if inputs.output_positions is not None:
            x_bsh = gather_positions(x_bsh, inputs.output_positions)
        return Outputs(x_bsh, by_layer=by_layer)

    def pool(
        self, first_h: Float[Tensor, "*batch h"], inputs: EncoderInputs | None = None
    ) -> Float[Tensor, "*batch h"]:
        """Pool first states (..., h), or the states of each row."""
        assert self.pooler is not None, "heads of rows have one"
        return self.pooler.of_rows(first_h, None if inputs is None else inputs.attention_mask)

    def shard_units(self) -> Iterable[nn.Module]:
        """The user's module."""
        return self.recurrence
