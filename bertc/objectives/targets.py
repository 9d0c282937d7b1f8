"""What passes between the data, the encoder and the losses, as tuples of tensors.

Axes: b rows, s positions of a row, m examples of a row, k predictions of a row, v token ids.
A row holds one example, several where rows are packed.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from bertc.ir.program.network import Network
from bertc.nn import EncoderInputs


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
    backward: torch.Tensor  # (b,) long, 1 where the row reads its text from end to beginning


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
    """Tokens to predict, in the order of the text; slots not used hold position 0 and weight 0.

    Terms that share a masking share these tensors; of some, each counts in rows of its own.
    """

    positions: torch.Tensor  # (b, k) long
    targets: torch.Tensor  # (b, k) long
    weights: torch.Tensor  # (b, k) float, 1 or 0
    translated: torch.Tensor | None = None  # (b,) float, 1 for translations; None: none can be


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


class Replacements(NamedTuple):
    """Tokens that others stand in for; unused slots hold position 0 and weight 0."""

    positions: torch.Tensor  # (b, k) long, in the order of the text
    weights: torch.Tensor  # (b, k) float, 1 or 0
    chances: torch.Tensor  # (b, k) double in [0, 1), what decides a guess
    judged: torch.Tensor  # (b, s) float where all tokens are asked about, else as ``weights``


class Answers(NamedTuple):
    """The examples of one task; weight 0 where nothing is asked."""

    positions: torch.Tensor  # (b, k) long, of the states read; of spans the first token of each
    targets: torch.Tensor  # (b, k), of spans (b, k, 2)
    weights: torch.Tensor  # (b, k) float
    passage: torch.Tensor  # (b, s) bool, where an answer may stand
    examples: torch.Tensor  # (b, s) long, which of its row's a token is of, from 1; 0: padding


class Columns(NamedTuple):
    """What the networks read and what each term of the objective predicts.

    ``reading`` has its token ids corrupted. A sampled network has a ``masked`` one of its own, and
    the other then holds the originals until there are guesses. ``terms`` has the
    targets of each term by its name; of tasks those of the one that the batch is of.
    """

    reading: EncoderInputs
    originals: torch.Tensor  # (b, s) long
    terms: dict[str, Any]
    masked: EncoderInputs | None = None

    def read_by(self, network: Network) -> EncoderInputs:
        """The reading of a network."""
        found = self.masked if network.role == "sampled" else self.reading
        assert found is not None, "where one is sampled there is a reading for it"
        return found

    def with_reading(self, network: Network, reading: EncoderInputs) -> "Columns":
        """With another reading of a network."""
        if network.role == "sampled":
            return self._replace(masked=reading)
        return self._replace(reading=reading)


def put(token_ids_bs: torch.Tensor, where: Replacements, others_bk: torch.Tensor) -> torch.Tensor:
    """Token ids (b, s) with others in some places: not in the first, and once in any."""
    b, s = token_ids_bs.shape
    positions_bk = where.positions
    # Two guesses about one token would race; the second, and slots not used, go beyond the row.
    again_bk = F.pad(positions_bk.diff(dim=1) == 0, (1, 0), value=False)
    slots_bk = torch.where((positions_bk > 0) & ~again_bk, positions_bk, s)
    wider = token_ids_bs.new_empty(b, s + 1)
    wider[:, :s] = token_ids_bs
    return wider.scatter_(1, slots_bk, others_bk)[:, :s]
