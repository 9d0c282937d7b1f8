"""Tensor side of a term; ``tensors_of`` joins it to its node in ``ir/terms/``.

A batch passes through a term in this order: ``targets`` makes the targets and changes the inputs;
``positions`` selects states of the network; ``score`` applies the head, once for all terms that
share it; ``loss`` sums up. ``count`` is known before any loss. ``take_guesses`` runs between two
networks. The rest is for display: ``baseline`` in evaluations, ``marks``, ``turns``, ``explain``
and ``explain_example`` in previews, ``ask`` in ``bertc fill``.

Axes: b rows, s positions of a row, k predictions of a row, n = b*k or another number of
predictions, v token ids, h hidden.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bertc.ir.program.stage import Stage
from bertc.ir.terms.node import TermNode
from bertc.learn.objectives.targets import Inputs, MicroBatch, Predictions, VocabTensors
from bertc.model import EncoderInputs
from bertc.model.body import BodyModule, Outputs

NodeT = TypeVar("NodeT", bound=TermNode)
OwnT = TypeVar("OwnT", bound=tuple[Any, ...])
HeadT = TypeVar("HeadT", bound=nn.Module)


@dataclass(frozen=True)
class TermLoss:
    """Loss of one term over some rows, as 0-d fp32 tensors that add up over parts of a batch.

    The loss of a batch is the total ``sum`` over the total ``count``, to which
    ``TermTensors.divisor_extra`` is added once.
    """

    sum: Tensor  # cross entropy in nats
    count: Tensor  # number of predictions
    correct: Tensor  # number of predictions with the target on top
    guesses: Int[Tensor, "b k"] | None = None  # sampled from the scores, if requested
    yes: Tensor | None = None  # number of positive labels, of binary terms


class Predicted(NamedTuple):
    """Predictions of a head."""

    losses: Float[Tensor, "n"]  # or shaped as the term's weights
    hits: Tensor  # the same shape; True where the target is on top
    guesses: Int[Tensor, "n"] | None = None  # sampled from the scores, if requested
    labels: Tensor | None = None  # 0 or 1, of binary terms; shaped as the losses


class HeadInput(NamedTuple, Generic[HeadT]):
    """The input of a head: states at the positions of its term, the batch, and their network."""

    states: tuple[Tensor, ...]
    batch: MicroBatch
    head: HeadT
    network: BodyModule
    chances: Tensor | None = None  # uniform numbers (b, k) to sample guesses by


class TextRows(NamedTuple):
    """A batch of text rows: the input of every term's ``targets``."""

    stage: Stage
    inputs: Inputs
    real: Bool[Tensor, "b s"]  # False at padding
    translated: Bool[Tensor, "b"]  # True if the row is a text and its translation
    hidden: Predictions | None  # the masking that the terms of the stage share
    vocab: VocabTensors
    key: int


@dataclass(frozen=True)
class RowView:
    """One row of a batch for previews."""

    batch: MicroBatch
    row: int
    length: int  # without padding
    seen: list[int]  # the input
    original: list[int]  # the text
    mask: int  # id of [MASK]
    token: Callable[[int], str]  # spells an id


class TermTensors(ABC, Generic[NodeT, OwnT, HeadT]):
    """Tensor functions of a term; ``OwnT`` is its targets, ``HeadT`` the module of its head.

    Targets are a tuple of tensors whose first axis is the batch, so that batches can be cut.
    """

    def __init__(self, node: NodeT) -> None:
        self.node = node

    @property
    def divisor_extra(self) -> int:
        """A constant added to the count of predictions by which the summed loss is divided."""
        return 0

    @abstractmethod
    def targets(self, rows: TextRows, reading: EncoderInputs) -> tuple[EncoderInputs, OwnT]:
        """Inputs as changed for this term, and its targets."""

    def positions(self, targets: OwnT, batch: MicroBatch) -> tuple[Tensor, ...] | None:
        """Positions (b, ...) of the states that it reads, those of its targets; None: all."""
        positions: Tensor | None = targets.positions  # type: ignore[attr-defined]
        return None if positions is None else (positions,)

    def taken(self, outputs: Outputs, *, learned: bool) -> tuple[Tensor, ...]:
        """Other outputs that it reads, of its own network or of a frozen one."""
        by_layer = outputs.by_layer or {}
        return tuple(by_layer[at] for at in self.node.wanted(learned=learned).states)

    def taught(self, read: HeadInput[Any]) -> tuple[Tensor, ...]:
        """Tensors for it from the states of a frozen network, and from the head it asks for."""
        return read.states

    @abstractmethod
    def score(self, targets: OwnT, read: HeadInput[HeadT]) -> Predicted:
        """Predictions from the states at the term's positions."""

    def compared_vectors(
        self, targets: OwnT, read: HeadInput[Any]
    ) -> tuple[Float[Tensor, "n t d"], Float[Tensor, "n"]]:
        """Vectors of examples, and their scores, of a term that compares those of a batch."""
        raise AssertionError("it compares no examples")

    def weights(self, targets: OwnT) -> Tensor:
        """1 where a prediction counts for this term, else 0; those of its targets."""
        weights: Tensor = targets.weights  # type: ignore[attr-defined]
        return weights

    def loss(self, predicted: Predicted, targets: OwnT) -> TermLoss:
        """Sums over the predictions that count."""
        weights = self.weights(targets)
        weight_n = weights.reshape(predicted.losses.shape)
        labels, guesses = predicted.labels, predicted.guesses
        return TermLoss(
            (predicted.losses * weight_n).sum(),
            weight_n.sum(),
            (predicted.hits * weight_n).sum(),
            None if guesses is None else guesses.view_as(weights),
            None if labels is None else (labels * weight_n).sum(),
        )

    def count(self, targets: OwnT) -> Tensor:
        """Number of predictions (0-d) to divide the summed loss by."""
        return self.weights(targets).sum()

    def chances(self, targets: OwnT) -> Tensor | None:
        """Uniform numbers (b, k) for sampling guesses from the network before; None: no guesses."""
        return None

    def take_guesses(
        self,
        targets: OwnT,
        batch: MicroBatch,
        reading: EncoderInputs,
        guesses_bk: Int[Tensor, "b k"],
    ) -> EncoderInputs:
        """Inputs of the term's network with the guesses (b, k) of another network."""
        return reading

    def baseline(self, targets: OwnT, nats_v: Float[Tensor, "v"]) -> Tensor | None:
        """Summed cost (0-d) of the targets under token costs (v,); None without token targets."""
        return None

    def marks(self, targets: OwnT, row: int) -> set[int]:
        """Positions of a row that previews show with input and original token."""
        return set()

    def turns(self, targets: OwnT, batch: MicroBatch, row: int) -> dict[int, int]:
        """Positions of a row to their rank, for targets predicted in an order."""
        return {}

    def explain(self, targets: OwnT, view: RowView) -> list[tuple[str, str]]:
        """Preview lines about a whole row, each a name and a text."""
        return []

    def explain_example(self, targets: OwnT, row: int, nth: int) -> list[tuple[str, str]]:
        """Preview lines about one example of a row."""
        return []

    def ask(
        self, reading: EncoderInputs, places_b: Int[Tensor, "b"], mask: int
    ) -> tuple[EncoderInputs, Tensor]:
        """Inputs, and positions (b,) of the states that predict the tokens at ``places_b``."""
        return reading, places_b


class ExampleTensors(TermTensors[NodeT, OwnT, HeadT]):
    """A term of a task, whose rows are made of examples (``learn/step/feed.py``)."""

    def targets(self, rows: TextRows, reading: EncoderInputs) -> tuple[EncoderInputs, OwnT]:
        """Refuse text."""
        raise AssertionError("task targets come from examples, not from text")


def marked(positions_bk: Int[Tensor, "b k"], weights_bk: Float[Tensor, "b k"], b: int) -> set[int]:
    """Positions of one row with a nonzero weight."""
    pairs = zip(positions_bk[b].tolist(), weights_bk[b].tolist(), strict=True)
    return {at for at, weight in pairs if weight}
