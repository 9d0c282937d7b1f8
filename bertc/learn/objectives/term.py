"""Tensor side of a term; ``tensors_of`` joins it to its node in ``ir/terms/``.

A batch passes through a term in this order: ``targets`` makes the targets and changes the inputs;
``positions`` selects states of the network; ``score`` applies the head, once for all terms that
share it; ``loss`` sums up. ``count`` is known before any loss. ``take_guesses`` runs between two
networks. The rest is for display: ``baseline`` in evaluations, ``marks``, ``turns``, ``explain``
and ``explain_example`` in previews, ``ask`` in ``bertc fill``.

Axes: b rows, s positions of a row, k predictions of a row, n = b*k or another number of
predictions, v token ids, h hidden, e embedding.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar, cast

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bertc.ir.program import Stage
from bertc.ir.terms.node import TermNode
from bertc.learn.objectives.softmax import cross_entropy
from bertc.learn.objectives.targets import Inputs, MicroBatch, Predictions, VocabTensors
from bertc.model import AdaptiveTokenHead, BodyModule, Embedding, EncoderInputs, Outputs, TokenHead

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
    reading: EncoderInputs  # as the terms before have changed it
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

    sums_up = False  # True: its one prediction is the sum of all losses

    def __init__(self, node: NodeT) -> None:
        self.node = node

    @property
    def divisor_extra(self) -> int:
        """A constant added to the count of predictions by which the summed loss is divided."""
        return 0

    def targets(self, rows: TextRows) -> tuple[EncoderInputs, OwnT]:
        """Inputs as changed for this term, and its targets."""
        raise AssertionError("targets of a task come from examples (learn/step/feed.py)")

    def positions(self, targets: OwnT, batch: MicroBatch) -> tuple[Tensor, ...] | None:
        """Positions (b, ...) of the states that it reads, those of its targets; None: all."""
        positions: Tensor | None = getattr(targets, "positions", None)
        return None if positions is None else (positions,)

    def taken(self, outputs: Outputs, *, learned: bool) -> tuple[Tensor, ...]:
        """Other outputs that it reads, of its own network or of a frozen one."""
        by_layer = outputs.by_layer or {}
        return tuple(by_layer[layer] for layer in self.node.wanted(learned=learned).states)

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
        return cast(Tensor, targets.weights)  # type: ignore[attr-defined]

    def loss(self, predicted: Predicted, targets: OwnT) -> TermLoss:
        """Sums over the predictions that count."""
        weights = self.weights(targets)
        if self.sums_up:  # nothing is right or wrong
            (summed,), (hits,) = predicted.losses, predicted.hits
            return TermLoss(summed, weights.sum(), hits)
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
        self, targets: OwnT, batch: MicroBatch, guesses_bk: Int[Tensor, "b k"]
    ) -> EncoderInputs:
        """Inputs of the term's network with the guesses (b, k) of another network."""
        return batch.reading

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


def marked(positions_bk: Int[Tensor, "b k"], weights_bk: Float[Tensor, "b k"], b: int) -> set[int]:
    """Positions of one row with a nonzero weight."""
    return set(positions_bk[b][weights_bk[b] != 0].tolist())


class TokenTensors(TermTensors[NodeT, OwnT, HeadT]):
    """A term that predicts tokens; its targets have ``targets``, ids shaped as its weights."""

    def score(self, own: OwnT, read: HeadInput[Any]) -> Predicted:
        targets: Tensor = own.targets  # type: ignore[attr-defined]
        return token_losses(read.states[0], targets, read.head, read.network, read.chances)

    def baseline(self, own: OwnT, nats_v: Float[Tensor, "v"]) -> Tensor | None:
        targets: Tensor = own.targets  # type: ignore[attr-defined]
        return (self.weights(own).double() * nats_v[targets]).sum()


def token_losses(
    states_bkh: Float[Tensor, "b k h"],
    targets_bk: Int[Tensor, "b k"],
    head: nn.Module,
    network: BodyModule,
    chances_bk: Float[Tensor, "b k"] | None = None,
) -> Predicted:
    """Losses of tokens (n,) predicted from states; sampled guesses if ``chances_bk`` is given."""
    states_nh = states_bkh.flatten(0, 1)
    if isinstance(head, AdaptiveTokenHead):
        assert chances_bk is None, "an adaptive head samples no guesses"
        scorer = cross_entropy.Scorer(head, network, states_nh.dtype)
        return Predicted(*cross_entropy.adaptive_loss(scorer, states_nh, targets_bk.reshape(-1)))
    assert isinstance(head, TokenHead), "the head of a language model"
    table_ve = table_of(network, head)
    bias_v = head.bias_of(table_ve)
    return feature_losses(head(states_nh), bias_v, targets_bk, table_ve, chances_bk)


def feature_losses(
    features_ne: Float[Tensor, "n e"],
    bias_v: Float[Tensor, "v"],
    targets_bk: Int[Tensor, "b k"],
    table_ve: Float[Tensor, "v e"],
    chances_bk: Float[Tensor, "b k"] | None = None,
) -> Predicted:
    """Losses of tokens (n,) whose scores are features times a table."""
    table_ve = table_ve.to(features_ne.dtype)
    chances_n = None if chances_bk is None else chances_bk.reshape(-1)
    targets_n = targets_bk.reshape(-1)
    losses = cross_entropy.vocabulary_loss(features_ne, table_ve, bias_v, targets_n, chances_n)
    return Predicted(*losses)


def token_logits(
    states_nh: Float[Tensor, "n h"], head: nn.Module, network: BodyModule
) -> Float[Tensor, "n v"]:
    """Scores (n, v) of every token; log p for an adaptive head."""
    if isinstance(head, AdaptiveTokenHead):
        scorer = cross_entropy.Scorer(head, network, states_nh.dtype)
        return cross_entropy.adaptive_logits(scorer, states_nh)
    assert isinstance(head, TokenHead), "the head of a language model"
    return head.scores(states_nh, table_of(network, head))


def table_of(network: BodyModule, head: TokenHead | None = None) -> Float[Tensor, "v e"]:
    """The table of a head, if it has its own, or else the one table of a network's tokens."""
    if head is not None and head.weight is not None:
        return head.weight
    assert isinstance(network.tokens, Embedding), "the checks allow one table only"
    return network.tokens.table
