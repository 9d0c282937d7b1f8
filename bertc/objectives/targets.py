"""What passes between the data, the encoder and the losses, as tuples of tensors.

Axes: b rows, s positions of a row, m examples of a row, k predictions of a row, v token ids.
A row holds one example, several where rows are packed.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int

from bertc.ir.program.network import Network
from bertc.nn import EncoderInputs


class Inputs(NamedTuple):
    """A batch as the data room makes it, as tensors on the device."""

    token_ids: Int[torch.Tensor, "b s"]  # padded at the end
    segment_ids: Int[torch.Tensor, "b s"]
    lengths: Int[torch.Tensor, "b"]  # real tokens with specials
    example_ids: Int[torch.Tensor, "b"]  # the address of a row
    copies: Int[torch.Tensor, "b"]  # which masking of the row this is
    starts: Int[torch.Tensor, "b m"]  # where each example begins, s in places not used
    pair_labels: Int[torch.Tensor, "b m"]  # 0: in order, 1: not, 2: in another language
    languages: Int[torch.Tensor, "b 2"]  # of the first text and of the second
    following: Int[torch.Tensor, "b"]  # the token after the row; -1 where its text ends
    backward: Int[torch.Tensor, "b"]  # 1 where the row reads its text from end to beginning


class Tables(NamedTuple):
    """The vocabulary as tensors on the device."""

    size: int
    pad: int
    cls: int
    sep: int
    mask: int
    word_start: Bool[torch.Tensor, "v"]  # the token begins a word
    special: Bool[torch.Tensor, "v"]
    unigram_cdf: Float[torch.Tensor, "v"]  # cumulative frequency in the training text
    frequency: Float[torch.Tensor, "v"]  # that of the rarest for tokens that never stand there


class Predictions(NamedTuple):
    """Tokens to predict, in the order of the text; slots not used hold position 0 and weight 0.

    Terms that share a masking share these tensors; of some, each counts in rows of its own.
    """

    positions: Int[torch.Tensor, "b k"]
    targets: Int[torch.Tensor, "b k"]
    weights: Float[torch.Tensor, "b k"]  # 1 or 0
    translated: Float[torch.Tensor, "b"] | None = None  # 1 for translations; None: none can be


class NextTokens(NamedTuple):
    """The token after every token; weight 0 where it is not asked for."""

    targets: Int[torch.Tensor, "b s"]
    weights: Float[torch.Tensor, "b s"]  # 1 or 0


class Boundaries(NamedTuple):
    """For each prediction the tokens around its span; weight 0 where there is no such pair."""

    left: Int[torch.Tensor, "b k"]  # position before the span
    right: Int[torch.Tensor, "b k"]  # position after the span
    place: Int[torch.Tensor, "b k"]  # how far inside the span, from 0
    targets: Int[torch.Tensor, "b k"]
    weights: Float[torch.Tensor, "b k"]  # 1 or 0


class Questions(NamedTuple):
    """A question about each example of a row; places not used hold position 0 and weight 0."""

    positions: Int[torch.Tensor, "b m"]  # the first token
    labels: Int[torch.Tensor, "b m"]  # 0: in order, 1: not
    weights: Float[torch.Tensor, "b m"]  # 1 or 0


class Replacements(NamedTuple):
    """Tokens that others stand in for; unused slots hold position 0 and weight 0."""

    positions: Int[torch.Tensor, "b k"]  # in the order of the text
    weights: Float[torch.Tensor, "b k"]  # 1 or 0
    chances: Float[torch.Tensor, "b k"]  # in [0, 1), what decides a guess
    judged: Float[torch.Tensor, "b s_or_k"]  # where all tokens are asked about, else as ``weights``


class Answers(NamedTuple):
    """The examples of one task; weight 0 where nothing is asked."""

    positions: Int[torch.Tensor, "b k"]  # of the states read; of spans the first token of each
    targets: Float[torch.Tensor, "b k"]  # of spans (b, k, 2)
    weights: Float[torch.Tensor, "b k"]
    passage: Bool[torch.Tensor, "b s"]  # where an answer may stand
    examples: Int[torch.Tensor, "b s"]  # which of its row's a token is of, from 1; 0: padding


class Columns(NamedTuple):
    """What the networks read and what each term of the objective predicts.

    ``reading`` has its token ids corrupted. A sampled network has a ``masked`` one of its own, and
    the other then holds the originals until there are guesses. ``terms`` has the
    targets of each term by its name; of tasks those of the one that the batch is of.
    """

    reading: EncoderInputs
    originals: Int[torch.Tensor, "b s"]
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


def put(
    token_ids_bs: Int[torch.Tensor, "b s"], where: Replacements, others_bk: Int[torch.Tensor, "b k"]
) -> Int[torch.Tensor, "b s"]:
    """Token ids (b, s) with others in some places: not in the first, and once in any."""
    b, s = token_ids_bs.shape
    positions_bk = where.positions
    # Two guesses about one token would race; the second, and slots not used, go beyond the row.
    again_bk = F.pad(positions_bk.diff(dim=1) == 0, (1, 0), value=False)
    slots_bk = torch.where((positions_bk > 0) & ~again_bk, positions_bk, s)
    wider = token_ids_bs.new_empty(b, s + 1)
    wider[:, :s] = token_ids_bs
    return wider.scatter_(1, slots_bk, others_bk)[:, :s]
