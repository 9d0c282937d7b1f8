"""Tensors passed between data, encoder and losses: inputs, targets and vocabulary.

Axes: b rows, s positions of a row, m examples of a row, k predictions of a row, v token ids. A row
holds one example, or several if rows are packed.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, assert_never

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bertc.ir.program import Network
from bertc.ir.terms.masking import kind_names
from bertc.model import EncoderInputs


class Inputs(NamedTuple):
    """A fetched batch as tensors on the device."""

    token_ids: Int[Tensor, "b s"]  # padded at the end
    segment_ids: Int[Tensor, "b s"]
    lengths: Int[Tensor, "b"]  # number of real tokens, special ones included
    example_ids: Int[Tensor, "b"]  # keys the row's random numbers
    copies: Int[Tensor, "b"]  # the number of the row's masking: epoch or stored copy
    starts: Int[Tensor, "b m"]  # start of each example; s in unused slots
    pair_labels: Int[Tensor, "b m"]  # 0: in order, 1: not, 2: in another language
    languages: Int[Tensor, "b 2"]  # of the first and second text
    following: Int[Tensor, "b"]  # the token after the row; -1 at the end of its text
    backward: Int[Tensor, "b"]  # 1 where the row holds its text in reverse


class VocabTensors(NamedTuple):
    """The vocabulary as tensors on the device."""

    size: int
    pad: int
    cls: int
    sep: int
    mask: int
    word_start: Bool[Tensor, "v"]  # True if the token begins a word
    special: Bool[Tensor, "v"]
    unigram_cdf: Float[Tensor, "v"]  # cumulative frequency in the training text
    frequency: Float[Tensor, "v"]  # in the training text; the lowest for absent tokens
    weights: Float[Tensor, "v"] | None = None  # of adaptive masks; None: equal
    token: Callable[[int], str] = str  # the text of an id


class Predictions(NamedTuple):
    """Tokens to predict, in text order; unused slots hold position 0 and weight 0."""

    positions: Int[Tensor, "b k"]
    targets: Int[Tensor, "b k"]
    weights: Float[Tensor, "b k"]  # 1 or 0
    translated: Float[Tensor, "b"] | None = None  # 1: rows of tlm; 0, or None: of mlm
    counts: Float[Tensor, "2 v"] | None = None  # of adaptive masks, which the loss adds to


class NextTokenTargets(NamedTuple):
    """The next token at every position, then perhaps those before; weight 0 where there is none."""

    targets: Int[Tensor, "b s_or_2s"]
    weights: Float[Tensor, "b s_or_2s"]  # 1 or 0


class Boundaries(NamedTuple):
    """The boundary tokens of each prediction's span; weight 0 where one is missing."""

    left: Int[Tensor, "b k"]  # position before the span
    right: Int[Tensor, "b k"]  # position after the span
    place: Int[Tensor, "b k"]  # distance from the start of the span, from 0
    targets: Int[Tensor, "b k"]
    weights: Float[Tensor, "b k"]  # 1 or 0


class PairTargets(NamedTuple):
    """The pair label of each example of a row; unused slots hold position 0 and weight 0."""

    positions: Int[Tensor, "b m"]  # the first token
    labels: Int[Tensor, "b m"]  # 0: in order, 1: not
    weights: Float[Tensor, "b m"]  # 1 or 0


class ReplacedTokens(NamedTuple):
    """Positions to replace; unused slots hold position 0 and weight 0."""

    positions: Int[Tensor, "b k"]  # in text order
    weights: Float[Tensor, "b k"]  # 1 or 0
    chances: Float[Tensor, "b k"]  # uniform in [0, 1), decides the guess
    classified: Float[Tensor, "b s_or_k"]  # 1 where classified: all tokens, or ``positions``
    targets: Int[Tensor, "b s_or_k"] | None = None  # originals to predict, of ``restore``


class TaskTargets(NamedTuple):
    """Labels of the examples of one task; weight 0 in unused slots."""

    positions: Int[Tensor, "b k"]  # of the states read; of spans the first token of each
    targets: Float[Tensor, "b k *c"]  # for spans (b, k, 2): start and end; several: 1 or 0
    weights: Float[Tensor, "b k"]
    passage: Bool[Tensor, "b s"]  # possible answer positions, or tokens that are pooled
    examples: Int[Tensor, "b s"]  # example number within the row, from 1; 0: padding


class WholeBatch(NamedTuple):
    """Vectors of all examples of a batch, without gradient, of which a micro-batch has some."""

    vectors: Float[Tensor, "m t d"]
    scores: Float[Tensor, "m t"]
    first: int  # number of the first example of the micro-batch


class Taught(NamedTuple):
    """Tensors that a frozen network hands to a term, and its share in the mean of several."""

    share: float
    tensors: tuple[Tensor, ...]


class MicroBatch(NamedTuple):
    """Inputs of the networks, and targets of the terms, for one batch.

    A sampled network reads ``masked``; ``reading`` then holds the originals until its guesses are
    there. Frozen networks read the inputs of the main one, and compute some states or all.
    """

    reading: EncoderInputs
    originals: Int[Tensor, "b s"]
    terms: dict[str, Any]  # targets by the name of the term, and of ``with_kinds``
    masked: EncoderInputs | None = None
    frozen_positions: Int[Tensor, "b o"] | None = None
    frozen_decoded: Int[Tensor, "b o"] | None = None  # of a mask decoder
    taught: dict[str, tuple[Taught, ...]] | None = None  # of each frozen network, by term
    whole_batch: WholeBatch | None = None  # of a term that compares examples of micro-batches
    over: float | None = None  # the share of the stage's steps before it, where one is compared

    def read_by(self, network: Network) -> EncoderInputs:
        """Inputs of a network."""
        match network.role:
            case "trained":
                inputs = self.reading
            case "sampled":
                assert self.masked is not None, "a sampled network has inputs of its own"
                inputs = self.masked
            case "frozen":
                inputs = self.reading.asked(self.frozen_positions, self.frozen_decoded)
                inputs = inputs._replace(memory=None)
            case unreachable:
                assert_never(unreachable)
        return inputs._replace(output_positions=None) if network.body.pooled.of_rows else inputs

    def with_positions(
        self,
        network: Network,
        asked_bo: Int[Tensor, "b o"] | None,
        decoded_bm: Int[Tensor, "b m"] | None,
    ) -> "MicroBatch":
        """The same with output positions for a network, and with those of its mask decoder."""
        match network.role:
            case "trained":
                return self._replace(reading=self.reading.asked(asked_bo, decoded_bm))
            case "sampled":
                return self._replace(masked=self.read_by(network).asked(asked_bo, decoded_bm))
            case "frozen":
                return self._replace(frozen_positions=asked_bo, frozen_decoded=decoded_bm)

    def named(self, names: Iterable[str]) -> list[str]:
        """Names of terms, then those of their predictions of one kind if they are there apart."""
        names = [*names]
        return names + [part for name in names for part in kind_names(name) if part in self.terms]


def scatter_tokens(
    token_ids_bs: Int[Tensor, "b s"], positions_bk: Int[Tensor, "b k"], ids_bk: Int[Tensor, "b k"]
) -> Int[Tensor, "b s"]:
    """Scatter ids (b, k) into token ids (b, s): never into position 0, and once per position."""
    s = token_ids_bs.shape[1]
    # Two ids for one position would race, so the second goes beyond the row, like unused slots.
    again_bk = F.pad(positions_bk.diff(dim=1) == 0, (1, 0), value=False)
    slots_bk = torch.where((positions_bk > 0) & ~again_bk, positions_bk, s)
    wider = torch.cat([token_ids_bs, token_ids_bs[:, :1]], dim=1)
    return wider.scatter_(1, slots_bk, ids_bk)[:, :s]
