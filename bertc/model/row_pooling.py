"""The base of modules that make the vector of a row of all its tokens.

Texts of a row stand one after the other, padding last.

Axes: b batch, s sequence, t texts of a row, d widths of a token's state, p pooled.
"""

from abc import abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import nn

from bertc.ir.network.row_pooling import RowPoolingBody
from bertc.model.body import BodyModule
from bertc.model.embeddings import Tokens, build_tokens
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


class RowPoolingModule(BodyModule):
    """A body with a token table, the vectors of whose texts make one of a row."""

    node: RowPoolingBody
    pooler: nn.Module | None

    def __init__(self, node: RowPoolingBody) -> None:
        super().__init__()
        table = {weight.name: weight for weight in node.weights()}
        self.node = node
        self.embeddings = nn.ModuleDict({"token": build_tokens(table, node)})

    @property
    def tokens(self) -> Tokens:
        """The one table."""
        token = self.embeddings["token"]
        assert isinstance(token, Tokens), "it is made so"
        return token

    @abstractmethod
    def text_vectors(
        self, states_bsd: Float[torch.Tensor, "b s d"], texts: TextSpans
    ) -> Float[torch.Tensor, "b t d"]:
        """The vector of each text; of an empty one any."""

    def pool(
        self, first_h: Float[torch.Tensor, "b s d"], inputs: EncoderInputs | None = None
    ) -> Float[torch.Tensor, "b 1 p"]:
        """One vector a row, of all its states."""
        assert inputs is not None, "the states of a row are of its texts"
        texts = text_spans(inputs, self.node.texts)
        each_btd = self.text_vectors(first_h, texts) * (texts.lengths > 0)[..., None]
        row_bd = row_vector(each_btd)
        pooled_bp = row_bd if self.pooler is None else torch.relu(self.pooler(row_bd))
        return pooled_bp[:, None]

    def borrow(self, lender: BodyModule, names: Iterable[str], *, added: bool) -> None:
        """Nothing is tied to it: only a transformer's generator shares tables."""
        raise ValueError(f"a {self.node.body_kind} shares no weights with another network")

    def compile_regions(self, *, any_shape: bool = False) -> None:
        """Nothing: the plan compiles none of them."""
