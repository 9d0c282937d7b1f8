"""Logits beside those of the teachers: of tokens, or of the answers to a task.

Axes: b rows, s positions of a row, m examples of a row, k states read of a row, n = b*k or another
number of them, h hidden, e embedding, v token ids, c labels.
"""

from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bertc.ir.terms.kd import KdLogits
from bertc.learn.objectives import term
from bertc.learn.objectives.answers import pool_states, tokens_of_examples
from bertc.learn.objectives.softmax.kd import ABSENT, Comparison, Logits, compared, soft_target_loss
from bertc.learn.objectives.targets import MicroBatch, TaskTargets
from bertc.model import BodyModule, EncoderInputs, TokenHead, dropout


class Compared(NamedTuple):
    """The compared tokens of each row: at some positions, or all with None."""

    weights: Float[Tensor, "b s_or_k"]  # 1 or 0
    positions: Int[Tensor, "b k"] | None


class KdLogitsTensors(term.TermTensors[KdLogits, Compared, TokenHead]):
    """Logits over the vocabulary beside those of the teachers."""

    sums_up = True

    def targets(self, rows: term.TextRows) -> tuple[EncoderInputs, Compared]:
        return rows.reading, compared_tokens(rows, self.node.compares)

    def taught(self, read: term.HeadInput[Any]) -> tuple[Tensor, ...]:
        """Features, table and bias, from which some scores at a time are made."""
        return _scores(read.states[0], read.head, read.network)

    def score(self, targets: Compared, read: term.HeadInput[TokenHead]) -> term.Predicted:
        """The summed loss of all tokens that count."""
        outputs, weights_n = (read.batch.taught or {})[self.node.title], targets.weights.reshape(-1)
        mine = _scores(read.states[0], read.head, read.network)
        taught, shares = [Logits(*o.tensors) for o in outputs], [o.share for o in outputs]
        how = comparison(self.node, read.network.node.vocab_size)
        summed = soft_target_loss(mine, taught, shares, weights_n, how)
        return term.Predicted(summed[None], torch.zeros_like(summed)[None])

    def explain(self, targets: Any, view: term.RowView) -> list[tuple[str, str]]:
        compared = int(targets.weights[view.row].sum())
        return [(self.node.kind, f"scores of {compared} tokens held against the teacher's")]


class KdAnswersTensors(term.TermTensors[KdLogits, TaskTargets, nn.Module]):
    """Logits of labels, a number, choices, tags or spans, off the states that the task reads."""

    def positions(self, targets: TaskTargets, batch: MicroBatch) -> tuple[Tensor, ...] | None:
        """Positions of the task's own states; of spans None, all of them."""
        return None if self.node.spans else (targets.positions,)

    def taught(self, read: term.HeadInput[Any]) -> tuple[Tensor, ...]:
        return (self._scores(read),)

    def score(self, targets: TaskTargets, read: term.HeadInput[nn.Module]) -> term.Predicted:
        """The loss of each example or word; nothing is right or wrong."""
        outputs = (read.batch.taught or {})[self.node.title]
        logits = (self._scores(read), *(output.tensors[0] for output in outputs))
        mine_nc, *taught = (self._there(scores, targets) for scores in logits)
        how = comparison(self.node, 1 if self.node.spans else mine_nc.shape[1])
        losses_n, _ = compared(mine_nc, taught, [output.share for output in outputs], how)
        if self.node.spans:  # the mean of start and end, as of the task itself
            losses_n = losses_n.view(2, *targets.weights.shape).mean(0)
            if self.node.classes == "mean":
                losses_n = losses_n / tokens_of_examples(targets).sum(2)
        return term.Predicted(losses_n, torch.zeros_like(losses_n))

    def weights(self, targets: TaskTargets) -> Tensor:
        """1 at examples or words, 0 at unused slots; of choices one an example."""
        if self.node.choices:
            return torch.ones_like(targets.weights.view(-1, self.node.choices)[:, 0])
        return targets.weights

    def _scores(self, read: term.HeadInput[nn.Module]) -> Tensor:
        """Logits in fp32, as the task's own term makes them: (n, c), or of spans (b, k, 2)."""
        reading = read.batch.reading
        states_bkh = pool_states(read.states[0], read.network, reading, of_rows=self.node.pools)
        if not self.node.spans:
            states_bkh = dropout(states_bkh, self.node.dropout, read.network.training)
        scores_bkc: Tensor = read.head(states_bkh).float()
        if self.node.spans:
            return scores_bkc
        if self.node.choices:
            return scores_bkc.reshape(-1, self.node.choices)
        return scores_bkc.flatten(0, 1)

    def _there(self, scores: Tensor, targets: TaskTargets) -> Float[Tensor, "n c"]:
        """Logits with those out of the way that an example lacks: choices, tokens of others."""
        if self.node.spans:
            slots = targets.weights.shape[1]
            logits = [x_bs[:, None].expand(-1, slots, -1) for x_bs in scores.unbind(2)]
            lacking = ~tokens_of_examples(targets)
            return torch.cat([x_bms.masked_fill(lacking, ABSENT).flatten(0, 1) for x_bms in logits])
        if self.node.choices:
            return scores.masked_fill(targets.weights.view_as(scores) == 0, ABSENT)
        return scores


def comparison(node: KdLogits, labels: int) -> Comparison:
    """The comparison of ``labels`` logits that a term describes."""
    scale = node.T**2 if node.scale == "T2" else 1.0
    return Comparison(node.loss, node.T, scale / (labels if node.classes == "mean" else 1))


def compared_tokens(rows: term.TextRows, which: Literal["all", "masked", "first"]) -> Compared:
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


def _scores(states: Float[Tensor, "b k h"], head: TokenHead, network: BodyModule) -> Logits:
    table_ve = term.table_of(network, head)
    features_ne = head(states.flatten(0, 1))
    return Logits(features_ne, table_ve.to(features_ne.dtype), head.bias_of(table_ve))
