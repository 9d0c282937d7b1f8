"""Loss of each term of a stage, as sums that add up over parts of a batch.

Axes: b rows, k predictions of a row, h hidden.
"""

import torch
from torch import nn

from bertc.ir.program.network import Network
from bertc.ir.program.resolved import Stage
from bertc.nn import Model
from bertc.objectives.targets import MicroBatch
from bertc.objectives.term import Predicted, TermLoss
from bertc.objectives.terms import joined, states_of


class Losses:
    """The terms of one network with their tensors and heads; callable on a batch."""

    def __init__(self, model: Model, stage: Stage, network: Network) -> None:
        self._network, self._heads = model.network(network.name), model.heads
        self._node = network
        self._scored = joined(network.scored)
        learned = [term.objective for term in network.terms]
        self._learned = joined(learned) if learned else self._scored
        # Networks after this one may need its guesses.
        others = (term.objective for term in stage.objective if term not in network.terms)
        self._others = joined(others) if network.role == "sampled" else ()

    def __call__(self, batch: MicroBatch, hidden: torch.Tensor) -> dict[str, TermLoss]:
        """The loss of every term by name, before weighting.

        ``hidden`` (b, s or k, h) are the network's states, at all positions or at the output
        positions. A sampled network also returns its guesses, even without training.
        """
        reading = batch.read_by(self._node)
        states = states_of(self._scored, batch, reading, hidden, self._node.body)
        chances = self._chances(batch)
        predicted: dict[str, Predicted] = {}
        for name, head, tensors in self._scored:
            if name in batch.terms:
                predicted[head] = tensors.score(
                    states[head], batch.terms[name], batch, self._heads[head], self._network,
                    chances,
                )  # fmt: skip
        return {
            name: tensors.loss(predicted[head], batch.terms[name])
            if name in batch.terms
            else nothing(self._heads[head], hidden)
            for name, head, tensors in self._learned
        }

    def _chances(self, batch: MicroBatch) -> torch.Tensor | None:
        for name, _, tensors in self._others:
            found: torch.Tensor | None = tensors.chances(batch.terms[name])
            if found is not None:
                return found
        return None


def nothing(head: nn.Module, hidden: torch.Tensor) -> TermLoss:
    """A zero loss for a term without targets in this batch.

    It gives every weight of the head a zero gradient, so that Adam's step counts stay equal.
    """
    none = hidden.new_zeros((), dtype=torch.float32)
    touched = sum((weight.sum() * 0 for weight in head.parameters()), none)
    return TermLoss(touched, none, none)
