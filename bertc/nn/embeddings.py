"""Tokens, places and segments become vectors.

Axes: b batch, s sequence, e embedding, h hidden.
"""

import torch
from torch import nn

from bertc.ir.encoder import Encoder
from bertc.nn.dropout import dropout
from bertc.nn.weights import Affine, Embedding, LayerNorm, Table


class Embeddings(nn.Module):
    """dropout(norm(token + position + segment)), mapped to the hidden width where E differs."""

    def __init__(self, table: Table, node: Encoder) -> None:
        super().__init__()
        self.token = Embedding(table, "embeddings.token")
        self.position = Embedding(table, "embeddings.position")
        self.segment = Embedding(table, "embeddings.segment") if node.segments else None
        post = node.norm.kind == "post"
        self.norm = LayerNorm(table, "embeddings.norm", node.norm.eps) if post else None
        self.project = Affine(table, "embeddings.project") if node.factorised else None
        self.offset = node.positions.offset
        self.dropout = node.dropout.hidden

    def forward(
        self, token_ids_bs: torch.Tensor, segment_ids_bs: torch.Tensor | None, dtype: torch.dtype
    ) -> torch.Tensor:
        """Ids (b, s) to vectors (b, s, h) in ``dtype``; no segment ids means segment 0."""
        seq = token_ids_bs.shape[1]
        x_bse = self.token(token_ids_bs) + self.position.weight[self.offset : self.offset + seq]
        if self.segment is not None:
            first = self.segment.weight[0]
            x_bse = x_bse + (first if segment_ids_bs is None else self.segment(segment_ids_bs))
        x_bse = x_bse.to(dtype)
        if self.norm is not None:
            x_bse = self.norm(x_bse)
        x_bse = dropout(x_bse, self.dropout, self.training)
        return x_bse if self.project is None else self.project(x_bse)
