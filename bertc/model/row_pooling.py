"""Texts of a row, whose vectors make that of the row.

Texts of a row stand one after the other, padding last.

Axes: b batch, s sequence, t texts of a row, d widths of a token's state, p pooled.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int

from bertc.model.inputs import EncoderInputs


class TextSpans(NamedTuple):
    """The texts of each row, one after the other, in a row of ``seq`` tokens."""

    begins: Int[torch.Tensor, "b t"]
    lengths: Int[torch.Tensor, "b t"]
    seq: int

    @property
    def last(self) -> Int[torch.Tensor, "b t"]:
        """The position of the last token of each."""
        return self.begins + self.lengths - 1

    def read(self, backward: bool) -> Int[torch.Tensor, "b ts"]:
        """Positions in the order in which the texts are read, each with its padding."""
        lane_s = torch.arange(self.seq, device=self.begins.device)
        at_bts = self.last[..., None] - lane_s if backward else self.begins[..., None] + lane_s
        return at_bts.clamp(0, self.seq - 1).flatten(1)

    def back(self, backward: bool) -> Int[torch.Tensor, "b s"]:
        """The place of each token in that order; of padding any."""
        lane_s = torch.arange(self.seq, device=self.begins.device)
        text_bs = (self.within().long() * self._numbers()[:, None]).sum(1)
        first_bs, last_bs = self.begins.gather(1, text_bs), self.last.gather(1, text_bs)
        step_bs = last_bs - lane_s if backward else lane_s - first_bs
        return text_bs * self.seq + step_bs.clamp(0, self.seq - 1)

    def within(self) -> Bool[torch.Tensor, "b t s"]:
        """True at the positions of each text."""
        lane_s = torch.arange(self.seq, device=self.begins.device)
        return (lane_s >= self.begins[..., None]) & (lane_s <= self.last[..., None])

    def _numbers(self) -> Int[torch.Tensor, "t"]:
        return torch.arange(self.begins.shape[1], device=self.begins.device)


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


def row_vector(each_btd: Float[torch.Tensor, "b t d"]) -> torch.Tensor:
    """The vector of a text, or of two compared (b, 4d)."""
    if each_btd.shape[1] == 1:
        return each_btd[:, 0]
    u_bd, v_bd = each_btd.unbind(1)
    return torch.cat([u_bd, v_bd, u_bd * v_bd, (u_bd - v_bd).abs()], dim=1)
