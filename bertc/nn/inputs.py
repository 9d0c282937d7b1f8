"""What an encoder reads: one value, however much of it an objective or a caller has to say.

Axes: b batch, s sequence, k positions asked of a row, u of its tokens unseen, h hidden.
"""

from typing import NamedTuple

import torch

from bertc.nn.memory import Memory


class Order(NamedTuple):
    """Who sees whom: token i sees token j if ``rank[j] < before[i]``, and itself.

    The tokens at ``unseen`` have a second state, of one who stands there and sees what the first
    does but the token itself. These states follow those of the row (XLNet 2.3, the query stream).
    """

    rank: torch.Tensor  # (b, s) long
    before: torch.Tensor  # (b, s) long
    unseen: torch.Tensor  # (b, u) long, positions


class Reading(NamedTuple):
    """Rows of token ids, and what is known of their tokens.

    ``attention_mask`` is true at real tokens; padding stands at the end of a row. Where rows hold
    several examples, ``sequence_ids`` number the tokens of each by one number of its own, in
    unbroken runs that begin at ``starts``, padding too; each place not used is where the next one
    begins. Without them they are looked for, and waited for. ``asked`` names the positions whose
    states are wanted: the last layer works there alone. With an ``order`` position s + i is the
    second state of unseen token i. ``language_ids``
    name rows of the encoder's table of languages; one beyond the last is no language.
    ``position_ids`` say where tokens stand if not one after another. ``memory`` stands before the
    rows. Where rows read text ``backward`` each token before another counts as after it.
    """

    token_ids: torch.Tensor  # (b, s) long
    segment_ids: torch.Tensor | None = None  # (b, s) long
    attention_mask: torch.Tensor | None = None  # (b, s) bool
    sequence_ids: torch.Tensor | None = None  # (b, s) long
    starts: torch.Tensor | None = None  # (b, m) long, ascending, the first 0
    language_ids: torch.Tensor | None = None  # (b, s) long
    position_ids: torch.Tensor | None = None  # (b, s) long, from 0
    memory: Memory | None = None
    backward: torch.Tensor | None = None  # (b,) long, 1 where a row does, None: all are forward
    order: Order | None = None  # None: all tokens see all
    asked: torch.Tensor | None = None  # (b, k) long, None: every position

    @property
    def remembered(self) -> int:
        """Positions remembered before those of a row."""
        return self.memory.length if self.memory else 0

    def keys(self, x_bqh: torch.Tensor, layer: int) -> torch.Tensor | None:
        """States (b, k, h) that a layer with inputs ``x`` attends to; None: to ``x`` itself.

        Remembered positions come first. States of the query stream are no keys.
        """
        seq = self.token_ids.shape[1]
        if self.memory is not None:
            return torch.cat([self.memory.states[layer], x_bqh[:, :seq]], dim=1)
        return None if self.order is None else x_bqh[:, :seq]


def rows_at(x_bsh: torch.Tensor, positions_bk: torch.Tensor) -> torch.Tensor:
    """The vectors (b, k, h) at positions (b, k); any position may come twice."""
    b, s, h = x_bsh.shape
    first_b = torch.arange(b, device=x_bsh.device) * s
    rows_n = (first_b[:, None] + positions_bk).reshape(-1)
    return x_bsh.reshape(b * s, h).index_select(0, rows_n).view(b, -1, h)
