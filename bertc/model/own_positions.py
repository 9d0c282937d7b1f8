"""Positions of the user's own: modules that read vectors and the places of their tokens.

Axes: b batch, s sequence, e embedding, q queries, k keys.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bertc.ir.base import Weight
from bertc.ir.network.positions import OwnPositions as OwnNode
from bertc.ir.network.positions import Positions
from bertc.model.inputs import EncoderInputs
from bertc.model.own import call_own, construct_from
from bertc.model.positions import position_ids


class PlacedTokens(nn.Module):
    """A module that gives embeddings their positions."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.own = module

    def forward(self, x_bse: Float[Tensor, "b s e"], inputs: EncoderInputs) -> Tensor:
        """Embeddings (b, s, e) with their positions."""
        return call_own(self.own, x_bse, places(inputs))


class PlacedHeads(NamedTuple):
    """Positions of queries and keys, for a module that changes both."""

    queries: Int[Tensor, "b q"]
    keys: Int[Tensor, "b k"]

    def select_queries(self, at_bq: Int[Tensor, "b q"]) -> "PlacedHeads":
        """The same of the queries at some positions."""
        return self._replace(queries=self.queries.gather(1, at_bq))


def build_own(
    table: Mapping[str, Weight], name: str, node: Positions, *, heads: bool
) -> nn.Module | None:
    """Build the user's module for positions of heads, or of embeddings; None if there is none."""
    if not isinstance(node, OwnNode) or node.in_attention != heads:
        return None
    return construct_from(table, name, node)


def placed_heads(inputs: EncoderInputs) -> PlacedHeads:
    """The positions of a row's queries and keys."""
    at_bs = places(inputs)
    return PlacedHeads(inputs.in_queries(at_bs), at_bs)


def places(inputs: EncoderInputs) -> Int[Tensor, "b s"]:
    """Positions (b, s) of the tokens, from 0 in each document."""
    ids_bs, tokens_bs = position_ids(inputs), inputs.token_ids
    in_order_s = torch.arange(tokens_bs.shape[1], device=tokens_bs.device)
    return (in_order_s if ids_bs is None else ids_bs).expand_as(tokens_bs)
