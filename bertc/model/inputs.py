"""The inputs of an encoder, as one value.

Axes: b batch, s sequence, q queries, k keys, o output positions, u target positions, h hidden,
n layers, m positions remembered.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class Memory(NamedTuple):
    """The inputs of every layer for the tokens before these rows, without gradient."""

    states: Float[Tensor, "n b m h"]
    filled: Int[Tensor, ""]  # how many of the last positions are valid: text has a beginning
    advance: int | None = None  # how many first tokens of a row it takes up; None: all
    same_length: bool = False  # each token of a causal encoder attends to m positions, as in
    # Transformer-XL (same_length)

    @property
    def length(self) -> int:
        """Number of cached positions."""
        return self.states.shape[2]

    def rows(self, rows: slice) -> "Memory":
        """The memory of some rows of the batch."""
        return self._replace(states=self.states[:, rows])

    def allowed(self, own_bqs: Bool[Tensor, "b q s"]) -> Bool[Tensor, "b q k"]:
        """Extend a mask (b|1, q, s) over a row by the memory before it: (b|1, q, m + s)."""
        length = self.length
        there_m = torch.arange(length, device=own_bqs.device) >= length - self.filled
        return torch.cat([there_m.expand(*own_bqs.shape[:2], length), own_bqs], dim=2)

    def kept(self, keys_bkh: Float[Tensor, "b k h"]) -> Float[Tensor, "b m h"]:
        """The states (b, m, h) to cache for the next rows, of a layer's inputs (b, m + s, h)."""
        length = self.length
        first = keys_bkh.shape[1] - length if self.advance is None else self.advance
        return keys_bkh[:, first : first + length].detach()

    def moved_on(self, states_bmh: list[Tensor], tokens: int) -> "Memory":
        """The memory after rows of ``tokens`` tokens, from the states ``kept`` of every layer."""
        more = tokens if self.advance is None else self.advance
        filled = (self.filled + more).clamp(max=self.length)
        return self._replace(states=torch.stack(states_bmh), filled=filled)


class PermutationMask(NamedTuple):
    """The mask of permutation language modelling (XLNet 2.3).

    Token i attends to itself and to token j if ``rank[j] < visible_below[i]``. Tokens at
    ``target_positions`` also have a state in the query stream, which attends to the same tokens
    except themselves. Those states follow the states of the row.
    """

    rank: Int[Tensor, "b s"]
    visible_below: Int[Tensor, "b s"]
    target_positions: Int[Tensor, "b u"]  # positions


class EncoderInputs(NamedTuple):
    """Rows of token ids, padded at the end, and everything else that an encoder reads."""

    token_ids: Int[Tensor, "b s"]
    segment_ids: Int[Tensor, "b s"] | None = None  # None: all 0
    attention_mask: Bool[Tensor, "b s"] | None = None  # True at real tokens
    sequence_ids: Int[Tensor, "b s"] | None = None  # number of the example, padding too
    starts: Int[Tensor, "b m"] | None = None  # of the examples; unused ones repeat the next
    language_ids: Int[Tensor, "b s"] | None = None  # one past the last: no language
    position_ids: Int[Tensor, "b s"] | None = None  # from 0; None: in order
    memory: Memory | None = None  # before the rows
    backward: Int[Tensor, "b"] | None = None  # 1 for rows in which earlier tokens are later
    permutation: PermutationMask | None = None  # None: every token attends to all
    output_positions: Int[Tensor, "b o"] | None = None  # of the last layer; None: all
    decoded_positions: Int[Tensor, "b o"] | None = None  # of a mask decoder; None: all
    causal: bool | None = None  # True: tokens attend to earlier ones alone, in any encoder

    @property
    def remembered(self) -> int:
        """Number of cached positions before a row."""
        return self.memory.length if self.memory else 0

    def asked(
        self, outputs_bo: Int[Tensor, "b o"] | None, decoded_bm: Int[Tensor, "b m"] | None
    ) -> "EncoderInputs":
        """The same with other positions of the last states and of the mask decoder."""
        return self._replace(output_positions=outputs_bo, decoded_positions=decoded_bm)

    def in_queries(self, x_bs: Int[Tensor, "#b s"]) -> Int[Tensor, "#b q"]:
        """Numbers of tokens (b|1, s) as those of all queries, with those of the query stream."""
        if self.permutation is None:
            return x_bs
        targets_bu = self.permutation.target_positions
        x_bs = x_bs.expand(len(targets_bu), -1)
        return torch.cat([x_bs, x_bs.gather(1, targets_bu)], dim=1)

    def keys(self, x_bqh: Float[Tensor, "b q h"], layer: int) -> Float[Tensor, "b k h"] | None:
        """Cached states and those of a row (m + s), which a layer attends to; None: all ``x``."""
        seq = self.token_ids.shape[1]
        if self.memory is not None:
            return torch.cat([self.memory.states[layer], x_bqh[:, :seq]], dim=1)
        return None if self.permutation is None else x_bqh[:, :seq]


class AttentionInputs(NamedTuple):
    """The inputs of a pass, their embeddings (b, q, h), and parameters that layers share."""

    inputs: EncoderInputs
    states: Tensor
    shared: Mapping[str, Tensor]


def gather_positions(
    x_bsh: Float[Tensor, "b s h"], positions_bk: Int[Tensor, "b k"]
) -> Float[Tensor, "b k h"]:
    """The vectors (b, k, h) at positions (b, k), which may repeat."""
    b, s, h = x_bsh.shape
    first_b = torch.arange(b, device=x_bsh.device) * s
    rows_n = (first_b[:, None] + positions_bk).reshape(-1)
    return x_bsh.reshape(b * s, h).index_select(0, rows_n).view(b, -1, h)
