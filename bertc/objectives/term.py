"""The tensor side of a term, which its node in ``ir/terms/`` is joined to by ``tensors_of``.

A batch goes through a term in this order: ``targets`` says what is asked of the text and how the
text is changed for it; ``positions`` which states of the network it reads; ``score`` what its head
makes of them, once for all terms of one head; ``loss`` sums that up. ``count`` is known before any
loss is. ``take_guesses`` comes between two networks. The rest is for people: ``baseline`` in
evaluations, ``marks``, ``turns``, ``explain`` and ``explain_example`` in previews, ``ask`` in
``bertc fill``.

Axes: b rows, s positions of a row, k predictions of a row, n = b*k or another number of them,
v token ids, h hidden.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import nn

from bertc.ir.program.resolved import Stage
from bertc.ir.terms.node import TermNode
from bertc.nn import EncoderInputs
from bertc.nn.body import BodyModule
from bertc.nn.exact import exact
from bertc.objectives.targets import Columns, Inputs, Predictions, Tables

NodeT = TypeVar("NodeT", bound=TermNode)
OwnT = TypeVar("OwnT", bound=tuple[Any, ...])
HeadT = TypeVar("HeadT", bound=nn.Module)


@dataclass(frozen=True)
class TermLoss:
    """One term over the rows given, as 0-d fp32 tensors, so that parts of a batch can be added.

    The loss of a batch is the sum of the sums over that of the counts, to which
    ``TermNode.divisor_extra`` is added once.
    """

    sum: torch.Tensor  # cross entropy in nats
    count: torch.Tensor  # predictions made
    correct: torch.Tensor  # predictions whose target scored highest
    guesses: Int[torch.Tensor, "b k"] | None = None  # drawn as the scores have it, if asked for
    yes: torch.Tensor | None = None  # of a question: predictions whose answer is 1


class Predicted(NamedTuple):
    """Predictions of a head: loss, whether the target scored highest, and perhaps a guess."""

    losses: Float[torch.Tensor, "n"]  # or as the weights of the term
    hits: torch.Tensor  # the same
    guesses: Int[torch.Tensor, "n"] | None = None


class TextRows(NamedTuple):
    """The rows of a batch of text, from which every term makes its targets."""

    stage: Stage
    inputs: Inputs
    real: Bool[torch.Tensor, "b s"]  # no padding
    translated: Bool[torch.Tensor, "b"]  # the row is a text and its translation
    hidden: Predictions | None  # the masking that the terms of the stage share
    tables: Tables
    key: int


@dataclass(frozen=True)
class RowView:
    """One row of a batch for a person: ``token`` spells an id, ``seen`` is read, not ``original``.

    ``length`` is without padding, and ``mask`` the id of the mask.
    """

    columns: Columns
    row: int
    length: int
    seen: list[int]
    original: list[int]
    mask: int
    token: Callable[[int], str]


class TermTensors(ABC, Generic[NodeT, OwnT, HeadT]):
    """What a term does with tensors; ``OwnT`` are its targets, ``HeadT`` the module of its head.

    Targets are a tuple of tensors whose first axis is the batch, so that batches can be cut.
    """

    def __init__(self, node: NodeT) -> None:
        self.node = node

    @abstractmethod
    def targets(self, rows: TextRows, reading: EncoderInputs) -> tuple[EncoderInputs, OwnT]:
        """Its targets, and what is read where the text is changed for it."""

    @abstractmethod
    def positions(self, own: OwnT, columns: Columns) -> tuple[torch.Tensor, ...] | None:
        """Positions (b, ...) of the states that it reads; None: all of the network's."""

    @abstractmethod
    def score(
        self,
        states: tuple[torch.Tensor, ...],
        own: OwnT,
        columns: Columns,
        head: HeadT,
        network: BodyModule,
        chances: torch.Tensor | None,
    ) -> Predicted:
        """Its predictions from the states at its positions, with guesses where chances are given.

        Terms that share a head share this too: it is called for one of them.
        """

    @abstractmethod
    def weights(self, own: OwnT) -> torch.Tensor:
        """1 where a prediction counts for this term, else 0."""

    def labels(self, own: OwnT, columns: Columns) -> torch.Tensor | None:
        """Answers 0 or 1 to a question of yes or no, shaped as its weights."""
        return None

    def loss(self, predicted: Predicted, own: OwnT, columns: Columns) -> TermLoss:
        """Sums over the predictions that count."""
        weights = self.weights(own)
        weight_n = weights.reshape(predicted.losses.shape)
        labels, guesses = self.labels(own, columns), predicted.guesses
        return TermLoss(
            (predicted.losses * weight_n).sum(),
            weight_n.sum(),
            (predicted.hits * weight_n).sum(),
            None if guesses is None else guesses.view_as(weights),
            None if labels is None else (labels * weights).sum(),
        )

    def count(self, own: OwnT) -> torch.Tensor:
        """Number of predictions (0-d) that the summed loss is a mean over."""
        return self.weights(own).sum()

    def chances(self, own: OwnT) -> torch.Tensor | None:
        """Numbers (b, k) in [0, 1) that decide the guesses that it wants of the network before."""
        return None

    def take_guesses(
        self,
        own: OwnT,
        columns: Columns,
        reading: EncoderInputs,
        guesses_bk: Int[torch.Tensor, "b k"],
    ) -> EncoderInputs:
        """The reading of its network once another one's guesses are there."""
        return reading

    def baseline(self, own: OwnT, nats_v: Float[torch.Tensor, "v"]) -> torch.Tensor | None:
        """Summed cost (0-d) of its targets under costs of tokens; None if it names no tokens."""
        return None

    def marks(self, own: OwnT, row: int) -> set[int]:
        """Positions of a row that previews show with the token before and after."""
        return set()

    def turns(self, own: OwnT, columns: Columns, row: int) -> dict[int, int]:
        """Positions of a row whose tokens are predicted one after another, and their turns."""
        return {}

    def explain(self, own: OwnT, view: RowView) -> list[tuple[str, str]]:
        """Lines about a whole row, each a name and a text."""
        return []

    def explain_example(self, own: OwnT, row: int, nth: int) -> list[tuple[str, str]]:
        """Lines about one example of a row."""
        return []

    def ask(
        self, reading: EncoderInputs, places_b: Int[torch.Tensor, "b"], mask: int
    ) -> tuple[EncoderInputs, torch.Tensor]:
        """The reading and the positions (b,) of the states that tell the tokens at some places."""
        return reading, places_b


class TokenTensors(TermTensors[NodeT, OwnT, HeadT]):
    """A term that names tokens: its targets have ``targets``, ids shaped as its weights."""

    def baseline(self, own: OwnT, nats_v: Float[torch.Tensor, "v"]) -> torch.Tensor | None:
        """By the cost of each target."""
        targets: torch.Tensor = own.targets  # type: ignore[attr-defined]
        return (exact(self.weights(own)) * nats_v[targets]).sum()


def marked(
    positions_bk: Int[torch.Tensor, "b k"], weights_bk: Float[torch.Tensor, "b k"], row: int
) -> set[int]:
    """Positions of one row that have a weight."""
    pairs = zip(positions_bk[row].tolist(), weights_bk[row].tolist(), strict=True)
    return {at for at, weight in pairs if weight}
