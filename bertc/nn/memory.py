"""Memory of the text before a row (Transformer-XL, section 3.2).

Axes: n layers, b batch, m cached positions, s sequence, h hidden.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int


class Memory(NamedTuple):
    """The inputs of every layer for the tokens before these rows, without gradient.

    Only the last ``filled`` of the m positions are valid, since text has a beginning. The memory
    advances by the first ``advance`` tokens of each row, None: by all. With ``same_length`` each
    token of a causal encoder attends to exactly m positions (Transformer-XL, same_length).
    """

    states: Float[torch.Tensor, "n b m h"]
    filled: Int[torch.Tensor, ""]
    advance: int | None = None
    same_length: bool = False

    @property
    def length(self) -> int:
        """Number of cached positions."""
        return self.states.shape[2]

    def rows(self, rows: slice) -> "Memory":
        """The memory of some rows of the batch."""
        return self._replace(states=self.states[:, rows])

    def allowed(self, own_bqs: Bool[torch.Tensor, "b q s"]) -> Bool[torch.Tensor, "b q k"]:
        """Extend a mask (b|1, q, s) over a row by the memory before it: (b|1, q, m + s)."""
        length = self.length
        there_m = torch.arange(length, device=own_bqs.device) >= length - self.filled
        return torch.cat([there_m.expand(*own_bqs.shape[:2], length), own_bqs], dim=2)

    def kept(self, keys_bkh: Float[torch.Tensor, "b k h"]) -> Float[torch.Tensor, "b m h"]:
        """The states (b, m, h) to cache for the next rows, of a layer's inputs (b, m + s, h)."""
        length = self.length
        first = keys_bkh.shape[1] - length if self.advance is None else self.advance
        return keys_bkh[:, first : first + length].detach()

    def moved_on(self, states_bmh: list[torch.Tensor], tokens: int) -> "Memory":
        """The memory after rows of ``tokens`` tokens, from the states ``kept`` of every layer."""
        more = tokens if self.advance is None else self.advance
        filled = (self.filled + more).clamp(max=self.length)
        return self._replace(states=torch.stack(states_bmh), filled=filled)


def nothing(
    layers: int,
    batch: int,
    length: int,
    hidden: int,
    dtype: torch.dtype,
    device: torch.device,
    advance: int | None = None,
) -> Memory:
    """An empty memory, for the beginning of a text."""
    states = torch.zeros(layers, batch, length, hidden, dtype=dtype, device=device)
    return Memory(states, torch.zeros((), dtype=torch.long, device=device), advance)
