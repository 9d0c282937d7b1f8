"""A bidirectional LSTM as a module: each direction of a layer is one kernel, oneDNN's or cuDNN's.

Padding comes last in both directions, for a text is turned within its length before it is read
backward. So it changes no state of a real token, and no length has to reach the host.

Axes: b batch, s sequence, t texts of a row, n = b*t, i inputs of a layer, h states of a direction,
d both directions, p pooled. Of spans by names k states of a row: n names, then w words; h hidden,
u units, i units of an inner layer, l words of a span.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, cast, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bertc.ir.network.bilstm import BiLstmBody
from bertc.ir.terms.task_head import NamedSpanHead, StatesHead
from bertc.model.body import BodyAboveTable
from bertc.model.inputs import EncoderInputs, gather_positions
from bertc.model.native.kernels import dropout
from bertc.model.weights import Linear, Table, parameter

lstm: Any = torch._VF.lstm
Way = Literal["right", "left"]
"""The way of a direction through a text: "left" from its last token."""


class TextSpans(NamedTuple):
    """The texts of each row, one after the other, in a row of ``seq`` tokens."""

    begins: Int[Tensor, "b t"]
    lengths: Int[Tensor, "b t"]
    seq: int

    @property
    def last(self) -> Int[Tensor, "b t"]:
        """The position of the last token of each."""
        return self.begins + self.lengths - 1

    def read(self, way: Way) -> Int[Tensor, "b ts"]:
        """Positions in the order in which the texts are read, each with its padding."""
        lane_s = torch.arange(self.seq, device=self.begins.device)
        at_bts = self.last[..., None] - lane_s if way == "left" else self.begins[..., None] + lane_s
        return at_bts.clamp(0, self.seq - 1).flatten(1)

    def back(self, way: Way) -> Int[Tensor, "b s"]:
        """The place of each token in that order; of padding any."""
        lane_s = torch.arange(self.seq, device=self.begins.device)
        number_t = torch.arange(self.begins.shape[1], device=self.begins.device)
        within_bts = (lane_s >= self.begins[..., None]) & (lane_s <= self.last[..., None])
        text_bs = (within_bts.long() * number_t[:, None]).sum(1)
        first_bs, last_bs = self.begins.gather(1, text_bs), self.last.gather(1, text_bs)
        step_bs = last_bs - lane_s if way == "left" else lane_s - first_bs
        return text_bs * self.seq + step_bs.clamp(0, self.seq - 1)


def text_spans(inputs: EncoderInputs, most: int) -> TextSpans:
    """One text a row, or two of unlike segments, the second of which may be empty."""
    ids_bs, mask_bs = inputs.token_ids, inputs.attention_mask
    real_bs = torch.ones_like(ids_bs, dtype=torch.bool) if mask_bs is None else mask_bs.bool()
    if most == 1:
        lengths_bt = real_bs.sum(1, keepdim=True)
    else:
        segments_bs = inputs.segment_ids
        segments_bs = torch.zeros_like(ids_bs) if segments_bs is None else segments_bs
        second_bs = real_bs & (segments_bs > 0)
        lengths_bt = torch.stack([(real_bs & ~second_bs).sum(1), second_bs.sum(1)], dim=1)
    return TextSpans(lengths_bt.cumsum(1) - lengths_bt, lengths_bt, ids_bs.shape[1])


class Direction(nn.Module):
    """One direction of a layer, with the equations and the two biases of torch.nn.LSTM."""

    def __init__(self, table: Table, name: str) -> None:
        super().__init__()
        self.input = Linear(table, f"{name}.input")
        self.state = Linear(table, f"{name}.state")

    def forward(self, x_nsi: Float[Tensor, "n s i"]) -> Float[Tensor, "n s h"]:
        """The state after each step, from zeros."""
        maps = [self.input.weight, self.state.weight, self.input.bias, self.state.bias]
        begin_1nh = x_nsi.new_zeros(1, x_nsi.shape[0], self.state.weight.shape[1])
        # biases, layers, dropout, whether backward follows, both directions, batch first
        arguments = (True, 1, 0.0, torch.is_grad_enabled(), False, True)
        weights = side_by_side(maps, x_nsi.dtype)
        return cast(Tensor, lstm(x_nsi, (begin_1nh, begin_1nh), weights, *arguments)[0])


def side_by_side(maps: Iterable[Tensor | None], dtype: torch.dtype) -> list[Tensor]:
    """Weights in ``dtype`` as parts of one tensor, which cuDNN would else copy at every call."""
    weights = [tensor for tensor in maps if tensor is not None]
    flat = torch.cat([weight.reshape(-1).to(dtype) for weight in weights])
    parts = torch.split(flat, [weight.numel() for weight in weights])
    return [part.view(weight.shape) for part, weight in zip(parts, weights, strict=True)]


class Layer(nn.Module):
    """Both directions of a layer."""

    def __init__(self, table: Table, name: str) -> None:
        super().__init__()
        self.right = Direction(table, f"{name}.right")
        self.left = Direction(table, f"{name}.left")

    def forward(self, x_bsi: Float[Tensor, "b s i"], texts: TextSpans) -> Float[Tensor, "b s d"]:
        """States of every token, from the tokens of its own text."""
        b, s, _ = x_bsi.shape
        states = []
        for way in get_args(Way):
            x_nsi = gather_positions(x_bsi, texts.read(way)).view(-1, s, x_bsi.shape[2])
            y_nsh = self.get_submodule(way)(x_nsi)
            y_bmh = y_nsh.reshape(b, -1, y_nsh.shape[2])  # m = t*s
            states.append(gather_positions(y_bmh, texts.back(way)))
        return torch.cat(states, dim=2)


class StatesScores(Linear):
    """Scores of joined states of several layers, perhaps read by a BiLSTM before."""

    def __init__(self, table: Table, name: str, node: StatesHead) -> None:
        super().__init__(table, name)
        sums = node.joins == "weighted-sum"
        self.mix = LayerWeights(table, f"{name}.mix") if sums else None
        count = node.recurrent.layers if node.recurrent else 0
        self.recurrence = nn.ModuleList(
            Layer(table, f"{name}.recurrence.{number}") for number in range(count)
        )

    def joined(self, parts: Sequence[Float[Tensor, "b k h"]]) -> Tensor:
        """One state a token (b, k, w): a weighted sum, or all side by side."""
        if self.mix is not None:
            return cast(Tensor, self.mix(parts))
        return parts[0] if len(parts) == 1 else torch.cat([*parts], dim=2)

    def read(self, x_bsi: Float[Tensor, "b s i"], inputs: EncoderInputs) -> Float[Tensor, "b s d"]:
        """States of the BiLSTM over each row, which is one text."""
        texts = text_spans(inputs, 1)
        for layer in self.recurrence:
            x_bsi = layer(x_bsi, texts)
        return x_bsi


class LayerWeights(nn.Module):
    """A softmax of learned weights over layers, and a factor (Peters et al. 2018, eq. 1)."""

    def __init__(self, table: Table, name: str) -> None:
        super().__init__()
        self.weight = parameter(table[f"{name}.weight"])
        self.scale = parameter(table[f"{name}.scale"])

    def forward(self, parts: Sequence[Float[Tensor, "b k h"]]) -> Tensor:
        """The weighted sum (b, k, h)."""
        shares = (self.scale * self.weight.softmax(0)).to(parts[0].dtype).unbind()
        summed = parts[0] * shares[0]
        for part, share in zip(parts[1:], shares[1:], strict=True):
            summed = summed + part * share
        return summed


class BiLstm(BodyAboveTable):
    """Token ids (b, s) to states (b, s, d), and those of a row to one vector (b, 1, p)."""

    node: BiLstmBody

    def __init__(self, node: BiLstmBody) -> None:
        table = {weight.name: weight for weight in node.weights()}
        super().__init__(node, table)
        self.recurrence = nn.ModuleList(Layer(table, f"recurrence.{n}") for n in range(node.depth))
        self.pooler = Linear(table, "pooler") if node.pooler else None

    def beside(self, inputs: EncoderInputs) -> TextSpans:
        return text_spans(inputs, self.node.texts)

    def pool(
        self, first_h: Float[Tensor, "b s d"], inputs: EncoderInputs | None = None
    ) -> Float[Tensor, "b 1 p"]:
        """One vector a row, of all its states: that of a text, or of two compared (4d)."""
        assert inputs is not None, "the states of a row are of its texts"
        texts = text_spans(inputs, self.node.texts)
        vectors_btd = self._text_vectors(first_h, texts) * (texts.lengths > 0)[..., None]
        row_bd = vectors_btd[:, 0]
        if vectors_btd.shape[1] == 2:
            u_bd, v_bd = vectors_btd.unbind(1)
            row_bd = torch.cat([u_bd, v_bd, u_bd * v_bd, (u_bd - v_bd).abs()], dim=1)
        pooled_bp = row_bd if self.pooler is None else torch.relu(self.pooler(row_bd))
        return pooled_bp[:, None]

    def _text_vectors(
        self, states_bsd: Float[Tensor, "b s d"], texts: TextSpans
    ) -> Float[Tensor, "b t d"]:
        """The last states of each text (Tang et al. 2019, 3.1); of an empty one any."""
        half = self.node.lstm.hidden
        last_bt, begin_bt = texts.last.clamp(min=0), texts.begins.clamp(max=texts.seq - 1)
        right_bth = gather_positions(states_bsd[..., :half], last_bt)
        left_bth = gather_positions(states_bsd[..., half:], begin_bt)
        return torch.cat([right_bth, left_bth], dim=2)


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
