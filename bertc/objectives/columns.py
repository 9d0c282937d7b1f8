"""What passes between the data, the encoder and the losses, as tuples of tensors.

Axes: b rows, s positions of a row, m examples of a row, k predictions of a row, v token ids.
A row holds one example, several where rows are packed.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch

from bertc.nn import Reading, rows_at


class Inputs(NamedTuple):
    """A batch as the data room makes it, as tensors on the device."""

    token_ids: torch.Tensor  # (b, s) long, padded at the end
    segment_ids: torch.Tensor  # (b, s) long
    lengths: torch.Tensor  # (b,) long, real tokens with specials
    example_ids: torch.Tensor  # (b,) long, the address of a row
    copies: torch.Tensor  # (b,) long, which masking of the row this is
    starts: torch.Tensor  # (b, m) long, where each example begins, s in places not used
    pair_labels: torch.Tensor  # (b, m) long, 0: in order, 1: not, 2: in another language
    languages: torch.Tensor  # (b, 2) long, of the first text and of the second
    following: torch.Tensor  # (b,) long, the token after the row; -1 where its text ends


class Tables(NamedTuple):
    """The vocabulary as tensors on the device."""

    size: int
    pad: int
    cls: int
    sep: int
    mask: int
    word_start: torch.Tensor  # (v,) bool, the token begins a word
    special: torch.Tensor  # (v,) bool
    unigram_cdf: torch.Tensor  # (v,) float, cumulative frequency in the training text
    frequency: torch.Tensor  # (v,) double, that of the rarest for tokens that never stand there


class Predictions(NamedTuple):
    """Tokens to predict, for mlm or tlm, in the order of the text.

    Slots not used hold position 0 and weight 0.
    """

    positions: torch.Tensor  # (b, k) long
    targets: torch.Tensor  # (b, k) long
    weights: torch.Tensor  # (b, k) float, 1 or 0


class NextTokens(NamedTuple):
    """The token after every token; weight 0 where it is not asked for."""

    targets: torch.Tensor  # (b, s) long
    weights: torch.Tensor  # (b, s) float, 1 or 0


class Boundaries(NamedTuple):
    """For each prediction the tokens around its span; weight 0 where there is no such pair."""

    left: torch.Tensor  # (b, k) long, position before the span
    right: torch.Tensor  # (b, k) long, position after the span
    place: torch.Tensor  # (b, k) long, how far inside the span, from 0
    targets: torch.Tensor  # (b, k) long
    weights: torch.Tensor  # (b, k) float, 1 or 0


class Questions(NamedTuple):
    """A question about each example of a row; places not used hold position 0 and weight 0."""

    positions: torch.Tensor  # (b, m) long, the first token
    labels: torch.Tensor  # (b, m) long, 0: in order, 1: not
    weights: torch.Tensor  # (b, m) float, 1 or 0


class Columns(NamedTuple):
    """What the encoder reads and what each term of the objective needs."""

    reading: Reading  # its token ids corrupted
    originals: torch.Tensor  # (b, s) long
    pairs: Questions | None
    mlm: Predictions | None
    sbo: Boundaries | None
    translated: torch.Tensor | None = None  # (b,) float, 1 for tlm's rows; None without tlm
    clm: NextTokens | None = None

    def places(self) -> dict[str, torch.Tensor]:
        """Where the terms read the encoder's states: positions (b, ...) by what reads them."""
        found: dict[str, torch.Tensor] = {}
        if self.mlm is not None:
            found["mlm"] = self.mlm.positions
        if self.sbo is not None:
            found["left"], found["right"] = self.sbo.left, self.sbo.right
        if self.pairs is not None:
            found["pairs"] = self.pairs.positions
        return found

    def asked_by(self, kind: Literal["mlm", "tlm"]) -> torch.Tensor:
        """The weights (b, k) of the predictions that count for one of two."""
        assert self.mlm is not None, f"{kind} without its columns"
        if self.translated is None:
            return self.mlm.weights
        own_b = self.translated if kind == "tlm" else 1 - self.translated
        return self.mlm.weights * own_b[:, None]

    def states(self, hidden: torch.Tensor, name: str) -> torch.Tensor:
        """The encoder's states (b, ..., h) at one of ``places``."""
        places = self.places()
        if self.reading.asked is None:
            return rows_at(hidden, places[name])
        # They were asked for in the order of ``places``.
        names = list(places)
        sizes = [places[n].shape[1] for n in names]
        return torch.split(hidden, sizes, dim=1)[names.index(name)]


@dataclass(frozen=True)
class TermLoss:
    """One term over the rows given, as 0-d fp32 tensors, so that parts of a batch can be added.

    The loss of a batch is the sum of the sums over that of the counts; for ``sbo`` with
    ``extra_pair`` one is added to the count of the whole batch.
    """

    sum: torch.Tensor  # cross entropy in nats
    count: torch.Tensor  # predictions made
    correct: torch.Tensor  # predictions whose target scored highest
