"""What rows remember of the text before them (Transformer-XL, section 3.2).

Axes: n layers, b batch, m positions remembered, s sequence, h hidden.
"""

from typing import NamedTuple

import torch


class Memory(NamedTuple):
    """The inputs of every layer where the rows before these were read; no gradient goes there.

    Of the m positions the last ``filled`` are there: text has a beginning. It moves on by the first
    ``advance`` tokens of each row, None: by all.
    """

    states: torch.Tensor  # (n, b, m, h)
    filled: torch.Tensor  # () long
    advance: int | None = None

    @property
    def length(self) -> int:
        """Positions remembered."""
        return self.states.shape[2]

    def rows(self, rows: slice) -> "Memory":
        """Those of some rows of the batch."""
        return self._replace(states=self.states[:, rows])

    def seen(self, own_bqs: torch.Tensor) -> torch.Tensor:
        """A mask (b|1, q, s) over a row, with what is remembered before it (b|1, q, m + s)."""
        length = self.length
        there_m = torch.arange(length, device=own_bqs.device) >= length - self.filled
        return torch.cat([there_m.expand(*own_bqs.shape[:2], length), own_bqs], dim=2)

    def kept(self, context_bsh: torch.Tensor) -> torch.Tensor:
        """Of the inputs (b, m + s, h) of a layer those (b, m, h) that the next rows remember."""
        length = self.length
        first = context_bsh.shape[1] - length if self.advance is None else self.advance
        return context_bsh[:, first : first + length].detach()

    def moved_on(self, states_bmh: list[torch.Tensor], tokens: int) -> "Memory":
        """The memory after a row of so many tokens, from what is ``kept`` of every layer."""
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
    """The memory at the beginning of a text."""
    states = torch.zeros(layers, batch, length, hidden, dtype=dtype, device=device)
    return Memory(states, torch.zeros((), dtype=torch.long, device=device), advance)
