"""Scores of spans of words against names, as a module (``ir/terms/span_head.py``).

Axes: b rows, k states read of a row: n names, then w words; h hidden, u units, i units of an inner
layer, l words of a span.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from bertc.ir.terms.span_head import NamedSpanHead
from bertc.model.bilstm import Layer, TextSpans
from bertc.model.native.kernels import dropout
from bertc.model.weights import Linear, Table

NO_SPAN = -700.0
"""The score of a span that is not there, whose likelihood and loss are 0."""


class TwoLayers(nn.Module):
    """A map with a ReLU and dropout inside."""

    def __init__(self, table: Table, name: str) -> None:
        super().__init__()
        self.inner, self.outer = (Linear(table, f"{name}.{leaf}") for leaf in ("inner", "outer"))

    __call__: Callable[..., Tensor]

    def forward(self, x: Tensor, rate: float) -> Tensor:
        """(..., h) to (..., u)."""
        return self.outer(dropout(self.inner(x).relu(), rate, self.training))


class NamedSpanScores(nn.Module):
    """The dot product of every span with every name in front of its row."""

    def __init__(self, table: Table, name: str, node: NamedSpanHead) -> None:
        super().__init__()
        self.widest = node.widest
        narrows = f"{name}.narrow.weight" in table
        self.narrow = Linear(table, f"{name}.narrow") if narrows else None
        self.recurrence = Layer(table, f"{name}.recurrence")
        self.start, self.end = TwoLayers(table, f"{name}.start"), TwoLayers(table, f"{name}.end")
        self.span, self.names = TwoLayers(table, f"{name}.span"), TwoLayers(table, f"{name}.names")

    def forward(
        self,
        x_bkh: Float[Tensor, "b k h"],
        name_bn: Bool[Tensor, "b n"],
        word_bw: Bool[Tensor, "b w"],
        rate: float,
    ) -> Float[Tensor, "b w n l"]:
        """Scores in fp32 by first word, name and width; ``NO_SPAN`` of what is not there."""
        x_bku = x_bkh if self.narrow is None else self.narrow(x_bkh)
        count, seq = name_bn.shape[1], word_bw.shape[1]
        lane_w = torch.arange(seq, device=word_bw.device)
        lengths_b1 = (word_bw * (lane_w + 1)).amax(1, keepdim=True)
        words = TextSpans(torch.zeros_like(lengths_b1), lengths_b1, seq)
        x_bwu = self.recurrence(x_bku[:, count:] * word_bw[..., None], words)
        names_bnu = self.names(x_bku[:, :count], rate)
        first_bwu, last_bwu = self.start(x_bwu, rate).relu(), self.end(x_bwu, rate).relu()
        # A product per half: a span has a pair of words, and each word is in many pairs.
        inner, half = self.span.inner, first_bwu.shape[2]
        weight, bias = inner.weight.to(x_bwu.dtype), inner.bias
        assert bias is not None, "maps of spans have biases"
        first_bwi = F.linear(first_bwu, weight[:, :half], bias.to(x_bwu.dtype))
        last_bwi = F.linear(last_bwu, weight[:, half:])
        last_bwli = F.pad(last_bwi, (0, 0, 0, self.widest - 1)).unfold(1, self.widest, 1).mT
        span_bwli = dropout((first_bwi[:, :, None] + last_bwli).relu(), rate, self.training)
        # The outer layer of spans is applied to names, which are fewer.
        outer, dtype = self.span.outer, names_bnu.dtype
        assert outer.bias is not None, "maps of spans have biases"
        names_bni, raise_bn = names_bnu @ outer.weight.to(dtype), names_bnu @ outer.bias.to(dtype)
        scores_bwnl = torch.einsum("bwli,bni->bwnl", span_bwli, names_bni).float()
        scores_bwnl = scores_bwnl + raise_bn[:, None, :, None].float()
        ends_bwl = F.pad(word_bw, (0, self.widest - 1)).unfold(1, self.widest, 1)
        there_bwnl = (word_bw[..., None] & ends_bwl)[:, :, None] & name_bn[:, None, :, None]
        return scores_bwnl.masked_fill(~there_bwnl, NO_SPAN)
