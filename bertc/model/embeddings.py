"""Embeddings of tokens, positions, segments and languages.

Axes: b batch, s sequence, u query-stream states, e embedding, h hidden.
"""

import math
from collections.abc import Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bertc.ir.network.body_node import BodyNode
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.table import AdaptiveTable, Cluster, WholeTable
from bertc.model.inputs import EncoderInputs, gather_positions
from bertc.model.native.kernels import dropout
from bertc.model.norm import build_norm
from bertc.model.own import OwnModule
from bertc.model.positions import build_positions, places
from bertc.model.weights import Embedding, Linear, Table, look_up_rows, parameter


class NarrowEmbedding(Embedding):
    """Rows of a narrow table, projected to the hidden width."""

    def __init__(self, table: Table, name: str) -> None:
        super().__init__(table, name)
        self.project = Linear(table, f"{name}.project")

    def forward(self, ids: Tensor) -> Tensor:
        """Integers (...) to vectors (..., h)."""
        return self.project(super().forward(ids))


class AdaptiveEmbedding(nn.ModuleList):
    """A table and a projection for each cluster of ids (Baevski and Auli 2019, section 3)."""

    def __init__(self, table: Table, name: str, clusters: tuple[Cluster, ...]) -> None:
        super().__init__(NarrowEmbedding(table, f"{name}.{n}") for n in range(len(clusters)))
        self.clusters = clusters

    def forward(self, ids: Tensor) -> Tensor:
        """Integers (...) to vectors (..., h)."""
        summed = torch.zeros((), device=ids.device)
        for (low, high, _), part in zip(self.clusters, self, strict=True):
            inside = (ids >= low) & (ids < high)
            vectors = part(torch.where(inside, ids - low, 0))
            summed = summed + torch.where(inside[..., None], vectors, 0)
        return summed

    def part(self, number: int) -> NarrowEmbedding:
        """Table and projection of one cluster, which the vocabulary head uses too."""
        embedding = self[number]
        assert isinstance(embedding, NarrowEmbedding), "all parts are narrow embeddings"
        return embedding


Tokens = Embedding | AdaptiveEmbedding
"""The modules of token tables."""


def build_tokens(table: Table, node: BodyNode) -> Tokens:
    """The module of a body's token tables."""
    if isinstance(node.table, AdaptiveTable) and node.table.narrows:
        return AdaptiveEmbedding(table, "embeddings.token", node.token_head.clusters)
    return Embedding(table, "embeddings.token")


def factors(node: WholeTable, inputs: EncoderInputs) -> Float[Tensor, "b s"]:
    """Factors of embeddings: 0 for dropped tokens, those of others make up for them in a text."""
    left_bs, numbers_bs = inputs.token_ids != node.dropped, inputs.sequence_ids
    real_bs = torch.ones_like(left_bs) if inputs.attention_mask is None else inputs.attention_mask

    def count(there_bs: Tensor) -> Tensor:
        if numbers_bs is None:
            return there_bs.sum(1, keepdim=True)
        number_bs = F.pad(numbers_bs.diff(dim=1) != 0, (1, 0)).cumsum(1)
        sums_bs = torch.zeros_like(number_bs).scatter_add(1, number_bs, there_bs.long())
        return sums_bs.gather(1, number_bs)

    left_of_all = count(real_bs) / count(real_bs.bool() & left_bs).clamp(min=1)
    return left_bs * (1 - node.masked) * left_of_all


class Embeddings(nn.Module):
    """dropout(norm(token + position + segment + language)), projected from width E to hidden."""

    def __init__(self, table: Table, node: Encoder) -> None:
        super().__init__()
        self.token = build_tokens(table, node)
        self.scale = math.sqrt(node.hidden) if node.table.scaled else 1.0
        self.table = node.table
        self.position = build_positions(table, "embeddings.position", node.positions)
        self.segment = Embedding(table, "embeddings.segment") if node.segments else None
        self.language = Embedding(table, "embeddings.language") if node.languages else None
        self.unseen = parameter(table["embeddings.unseen"]) if node.two_streams else None
        normed = node.norm.embeddings
        self.norm = build_norm(table, "embeddings.norm", node.norm.of_layers) if normed else None
        narrow = node.embedding != node.hidden
        self.project = Linear(table, "embeddings.project") if narrow else None
        self.dropout = node.dropout.hidden

    def borrow(self, lender: "Embeddings", names: Iterable[str]) -> None:
        """Use another instance's modules for these names, registered as the lender's alone."""
        for name in names:
            delattr(self, name)
            vars(self)[name] = getattr(lender, name)

    def add(self, lender: "Embeddings", names: Iterable[str]) -> None:
        """Look up sums of another instance's tables and its own, with a gradient of its own."""
        for name in names:
            vars(getattr(self, name))["base"] = getattr(lender, name)  # registered by the lender

    def forward(self, inputs: EncoderInputs, dtype: torch.dtype) -> Tensor:
        """Ids to embeddings (b, s + u, h); those of the query stream are of positions alone."""
        x_bse = self.token(inputs.token_ids)
        if isinstance(self.table, WholeTable) and self.table.dropped >= 0:
            x_bse = x_bse * factors(self.table, inputs)[..., None]
        x_bse = self._summed(x_bse, inputs)
        if inputs.permutation is not None:
            assert self.unseen is not None, "a permutation needs an encoder of two streams"
            stream_bse = self._summed(self.unseen.expand_as(x_bse), inputs)
            x_bse = torch.cat(
                [x_bse, gather_positions(stream_bse, inputs.permutation.target_positions)], dim=1
            )
        x_bse = x_bse.to(dtype)
        x_bse = x_bse if self.norm is None else self.norm(x_bse)
        x_bse = dropout(x_bse, self.dropout, self.training)
        return x_bse if self.project is None else self.project(x_bse)

    def _summed(
        self, x_bse: Float[Tensor, "b s e"], inputs: EncoderInputs
    ) -> Float[Tensor, "b s e"]:
        """Add the embeddings of positions, segments and languages."""
        if self.scale != 1:
            x_bse = x_bse * self.scale
        if isinstance(self.position, OwnModule):
            x_bse = self.position(x_bse, places(inputs))
        elif self.position is not None:
            x_bse = x_bse + self.position.added(x_bse, inputs)
        if self.segment is not None:
            segment_ids_bs = inputs.segment_ids
            first = self.segment.weight[0]
            x_bse = x_bse + (first if segment_ids_bs is None else self.segment(segment_ids_bs))
        if self.language is not None and inputs.language_ids is not None:
            beyond = F.pad(self.language.weight, (0, 0, 0, 1))
            x_bse = x_bse + look_up_rows(beyond, inputs.language_ids)
        return x_bse
