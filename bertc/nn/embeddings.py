"""Tokens, places and segments become vectors.

Axes: b batch, s sequence, e embedding, h hidden.
"""

import torch
import torch.nn.functional as F
from torch import nn

from bertc.ir.encoder import Encoder
from bertc.nn.dropout import dropout
from bertc.nn.waves import sinusoids
from bertc.nn.weights import Embedding, LayerNorm, Linear, Table


class Embeddings(nn.Module):
    """dropout(norm(token + position + segment)), mapped to the hidden width where E differs."""

    def __init__(self, table: Table, node: Encoder) -> None:
        super().__init__()
        self.token = Embedding(table, "embeddings.token")
        learned = node.positions.kind == "learned"
        self.position = Embedding(table, "embeddings.position") if learned else None
        self.sinusoidal = node.positions.kind == "sinusoidal"
        self.segment = Embedding(table, "embeddings.segment") if node.segments else None
        normed = node.norms_embeddings
        self.norm = LayerNorm(table, "embeddings.norm", node.norm.eps) if normed else None
        self.project = Linear(table, "embeddings.project") if node.factorised else None
        self.offset = node.positions.offset
        self.dropout = node.dropout.hidden

    def forward(
        self,
        token_ids_bs: torch.Tensor,
        segment_ids_bs: torch.Tensor | None,
        sequence_ids_bs: torch.Tensor | None,
        dtype: torch.dtype,
    ) -> torch.Tensor:
        """Ids (b, s) to vectors (b, s, h) in ``dtype``; no segment ids means segment 0."""
        x_bse = self.token(token_ids_bs)
        if self.position is not None:
            x_bse = x_bse + self._places(self.position, token_ids_bs.shape[1], sequence_ids_bs)
        if self.sinusoidal:
            x_bse = x_bse + self._waves(x_bse, sequence_ids_bs)
        if self.segment is not None:
            first = self.segment.weight[0]
            x_bse = x_bse + (first if segment_ids_bs is None else self.segment(segment_ids_bs))
        x_bse = x_bse.to(dtype)
        if self.norm is not None:
            x_bse = self.norm(x_bse)
        x_bse = dropout(x_bse, self.dropout, self.training)
        return x_bse if self.project is None else self.project(x_bse)

    def _places(
        self, table: Embedding, seq: int, sequence_ids_bs: torch.Tensor | None
    ) -> torch.Tensor:
        if sequence_ids_bs is None:
            return table.weight[self.offset : self.offset + seq]
        rows: torch.Tensor = table(self.offset + places(sequence_ids_bs))
        return rows

    def _waves(self, x_bse: torch.Tensor, sequence_ids_bs: torch.Tensor | None) -> torch.Tensor:
        _, seq, width = x_bse.shape
        waves_se = sinusoids(torch.arange(seq, device=x_bse.device).float(), width)
        return waves_se if sequence_ids_bs is None else waves_se[places(sequence_ids_bs)]


def places(sequence_ids_bs: torch.Tensor) -> torch.Tensor:
    """How far each token (b, s) stands from the first of its unbroken run of one number."""
    lane_s = torch.arange(sequence_ids_bs.shape[1], device=sequence_ids_bs.device)
    begins_bs = F.pad(sequence_ids_bs.diff(dim=1) != 0, (1, 0), value=True)
    return lane_s - torch.where(begins_bs, lane_s, 0).cummax(1).values
