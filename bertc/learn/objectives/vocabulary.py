"""Losses over the vocabulary from states, for every kind of token head.

Axes: b rows, k predictions of a row, n = b*k, h hidden, e embedding, v token ids.
"""

from typing import Any

from jaxtyping import Float, Int
from torch import Tensor, nn

from bertc.learn.objectives.softmax.adaptive import adaptive_logits, adaptive_loss
from bertc.learn.objectives.softmax.cross_entropy import vocabulary_loss
from bertc.learn.objectives.term import HeadInput, HeadT, NodeT, OwnT, Predicted, TermTensors
from bertc.model.body import BodyModule
from bertc.model.heads import AdaptiveTokenHead, TokenHead
from bertc.model.weights import Embedding


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
        targets_n, tokens = targets_bk.reshape(-1), network.tokens
        return Predicted(*adaptive_loss(network.node, states_nh, targets_n, head, tokens))
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
    return Predicted(
        *vocabulary_loss(features_ne, table_ve, bias_v, targets_bk.reshape(-1), chances_n)
    )


def token_logits(
    states_nh: Float[Tensor, "n h"], head: nn.Module, network: BodyModule
) -> Float[Tensor, "n v"]:
    """Scores (n, v) of every token; log p for an adaptive head."""
    if isinstance(head, AdaptiveTokenHead):
        return adaptive_logits(network.node, states_nh, head, network.tokens)
    assert isinstance(head, TokenHead), "the head of a language model"
    return head.scores(states_nh, table_of(network, head))


def table_of(network: BodyModule, head: TokenHead | None = None) -> Float[Tensor, "v e"]:
    """The table of a head, if it has its own, or else the one table of a network's tokens."""
    if head is not None and head.weight is not None:
        return head.weight
    token = network.tokens
    assert isinstance(token, Embedding), "the checks allow one table only"
    return token.table
