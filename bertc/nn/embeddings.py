"""Tokens, places and segments become vectors.

Axes: b batch, s sequence, e embedding, h hidden.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
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

    def borrow(self, lender: "Embeddings", names: Iterable[str]) -> None:
        """Use parts of another's in place of its own: the very modules, which stay the lender's.

        So whatever happens to their tensors happens to both, and they are listed once.
        """
        for name in names:
            delattr(self, name)
            vars(self)[name] = getattr(lender, name)

    def forward(
        self,
        token_ids_bs: torch.Tensor,
        segment_ids_bs: torch.Tensor | None,
        sequence_ids_bs: torch.Tensor | None,
        dtype: torch.dtype,
    ) -> torch.Tensor:
        """Ids (b, s) to vectors (b, s, h) in ``dtype``; no segment ids means segment 0."""
        seq = token_ids_bs.shape[1]
        if sequence_ids_bs is None:
            place = self.position.weight[self.offset : self.offset + seq]
        else:
            place = self.position(self.offset + places(sequence_ids_bs))
        x_bse = self.token(token_ids_bs) + place
        if self.segment is not None:
            first = self.segment.weight[0]
            x_bse = x_bse + (first if segment_ids_bs is None else self.segment(segment_ids_bs))
        x_bse = x_bse.to(dtype)
        if self.norm is not None:
            x_bse = self.norm(x_bse)
        x_bse = dropout(x_bse, self.dropout, self.training)
        return x_bse if self.project is None else self.project(x_bse)


def places(sequence_ids_bs: torch.Tensor) -> torch.Tensor:
    """How far each token (b, s) stands from the first of its unbroken run of one number."""
    lane_s = torch.arange(sequence_ids_bs.shape[1], device=sequence_ids_bs.device)
    begins_bs = F.pad(sequence_ids_bs.diff(dim=1) != 0, (1, 0), value=True)
    return lane_s - torch.where(begins_bs, lane_s, 0).cummax(1).values
