"""Logits beside those of the teachers: of tokens, or of the answers to a task.

Axes: b rows, s positions of a row, k states read of a row, n = b*k or another number of them, h
hidden, e embedding, v token ids, c labels.
"""

from typing import Any, Literal, NamedTuple, assert_never

import torch
from jaxtyping import Float, Int
from torch import nn

from bertc.ir.terms.kd import KdLogits
from bertc.nn import EncoderInputs, dropout
from bertc.nn.body import BodyModule
from bertc.nn.heads import TokenHead
from bertc.objectives.softmax.soft_targets import Comparison, Logits, compared, soft_target_loss
from bertc.objectives.targets import MicroBatch, TaskTargets
from bertc.objectives.term import Predicted, RowView, TermLoss, TermTensors, TextRows
from bertc.objectives.vocabulary import table_of

ABSENT = -1e4
"""The score of a choice that an example lacks: its chance is 0, and finite products with it too."""


class Compared(NamedTuple):
    """The compared tokens of each row: at some positions, or all with None."""

    weights: Float[torch.Tensor, "b s_or_k"]  # 1 or 0
    positions: Int[torch.Tensor, "b k"] | None


class KdLogitsTensors(TermTensors[KdLogits, Compared, TokenHead]):
    """Logits over the vocabulary beside those of the teachers."""

    def targets(self, rows: TextRows, reading: EncoderInputs) -> tuple[EncoderInputs, Compared]:
        """Real tokens, or masked ones."""
        return reading, compared_tokens(rows, self.node.compares)

    def positions(self, own: Compared, batch: MicroBatch) -> tuple[torch.Tensor, ...] | None:
        """Positions of the compared tokens."""
        return None if own.positions is None else (own.positions,)

    def taught(
        self,
        states: tuple[torch.Tensor, ...],
        batch: MicroBatch,
        head: nn.Module | None,
        network: BodyModule,
    ) -> tuple[torch.Tensor, ...]:
        """Features, table and bias, from which some scores at a time are made."""
        assert isinstance(head, TokenHead), "the checks see to such a head"
        return _scores(states[0], head, network)

    def score(
        self,
        states: tuple[torch.Tensor, ...],
        own: Compared,
        batch: MicroBatch,
        head: TokenHead,
        network: BodyModule,
        chances: torch.Tensor | None,
    ) -> Predicted:
        """The summed loss of all tokens that count."""
        lessons = (batch.taught or {})[self.node.title]
        summed = soft_target_loss(
            _scores(states[0], head, network),
            [Logits(*lesson.tensors) for lesson in lessons],
            [lesson.share for lesson in lessons],
            own.weights.reshape(-1),
            comparison(self.node, network.node.vocab_size),
        )
        return Predicted(summed[None], torch.zeros_like(summed)[None])

    def loss(self, predicted: Predicted, own: Compared) -> TermLoss:
        """The sum as it is: nothing is right or wrong."""
        return summed_loss(predicted, own.weights)

    def weights(self, own: Compared) -> torch.Tensor:
        """1 at compared tokens, else 0."""
        return own.weights

    def explain(self, own: Any, view: RowView) -> list[tuple[str, str]]:
        """The number of compared tokens."""
        compared = int(own.weights[view.row].sum())
        return [(self.node.kind, f"scores of {compared} tokens held against the teacher's")]


class KdAnswersTensors(TermTensors[KdLogits, TaskTargets, nn.Module]):
    """Logits of labels, a number, choices or tags, read off the states that the task reads."""

    def targets(self, rows: TextRows, reading: EncoderInputs) -> tuple[EncoderInputs, TaskTargets]:
        """Refuse text: rows of tasks are made of examples (``step/task_feed.py``)."""
        raise AssertionError("rows of tasks are made of examples, not of text")

    def positions(self, own: TaskTargets, batch: MicroBatch) -> tuple[torch.Tensor, ...]:
        """Positions of the task's own states."""
        return (own.positions,)

    def taught(
        self,
        states: tuple[torch.Tensor, ...],
        batch: MicroBatch,
        head: nn.Module | None,
        network: BodyModule,
    ) -> tuple[torch.Tensor, ...]:
        """The teacher's scores."""
        assert head is not None, "it asks for the head of its task"
        return (self._scores(states[0], head, network),)

    def score(
        self,
        states: tuple[torch.Tensor, ...],
        own: TaskTargets,
        batch: MicroBatch,
        head: nn.Module,
        network: BodyModule,
        chances: torch.Tensor | None,
    ) -> Predicted:
        """The loss of each example or word, and whether both answer alike."""
        lessons = (batch.taught or {})[self.node.title]
        mine_nc, *theirs = (
            self._there(scores_nc, own)
            for scores_nc in (
                self._scores(states[0], head, network),
                *(lesson.tensors[0] for lesson in lessons),
            )
        )
        how = comparison(self.node, mine_nc.shape[1])
        losses_n, _ = compared(mine_nc, theirs, [lesson.share for lesson in lessons], how)
        return Predicted(losses_n, torch.zeros_like(losses_n))

    def weights(self, own: TaskTargets) -> torch.Tensor:
        """1 at examples or words, 0 at unused slots; of choices one an example."""
        if self.node.choices:
            return torch.ones_like(own.weights.view(-1, self.node.choices)[:, 0])
        return own.weights

    def _scores(
        self, states_bkh: Float[torch.Tensor, "b k h"], head: nn.Module, network: BodyModule
    ) -> Float[torch.Tensor, "n c"]:
        """Logits in fp32, as the task's own term makes them."""
        if network.node.pooler and self.node.pools:
            states_bkh = network.pool(states_bkh)
        scores_bkc = head(dropout(states_bkh, self.node.dropout, network.training)).float()
        found: torch.Tensor = (
            scores_bkc.reshape(-1, self.node.choices)
            if self.node.choices
            else scores_bkc.flatten(0, 1)
        )
        return found

    def _there(
        self, scores_nc: Float[torch.Tensor, "n c"], own: TaskTargets
    ) -> Float[torch.Tensor, "n c"]:
        """Logits with those of absent choices out of the way."""
        if not self.node.choices:
            return scores_nc
        return scores_nc.masked_fill(own.weights.view_as(scores_nc) == 0, ABSENT)


def summed_loss(predicted: Predicted, weights: torch.Tensor) -> TermLoss:
    """The loss of a term that sums up by itself, over the tokens that count."""
    (summed,), (hits,) = predicted.losses, predicted.hits
    return TermLoss(summed, weights.sum(), hits)


def comparison(node: KdLogits, labels: int) -> Comparison:
    """The comparison of ``labels`` logits that a term describes."""
    scale = node.T**2 if node.scale == "T2" else 1.0
    return Comparison(node.loss, node.T, scale / (labels if node.classes == "mean" else 1))


def compared_tokens(rows: TextRows, which: Literal["all", "masked", "first"]) -> Compared:
    """Real tokens, masked ones, or the first one of each example."""
    match which:
        case "all":
            return Compared(rows.real.float(), None)
        case "masked":
            assert rows.hidden is not None, "the checks see to a masking"
            return Compared(rows.hidden.weights, rows.hidden.positions)
        case "first":
            starts_bm = rows.inputs.starts
            used_bm = starts_bm < rows.inputs.token_ids.shape[1]
            return Compared(used_bm.float(), torch.where(used_bm, starts_bm, 0))
        case _:
            assert_never(which)


def _scores(states: Float[torch.Tensor, "b k h"], head: TokenHead, network: BodyModule) -> Logits:
    table_ve = table_of(network)
    features_ne = head(states.flatten(0, 1))
    return Logits(features_ne, table_ve.to(features_ne.dtype), head.bias_of(table_ve))
