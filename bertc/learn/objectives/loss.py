"""Loss of each term of a stage, as sums that add up over parts of a batch.

Axes: b rows, k predictions of a row, h hidden.
"""

from typing import Any

import torch
from torch import nn

from bertc.ir.program.network import Network
from bertc.ir.program.stage import Stage
from bertc.ir.terms.node import asks_head
from bertc.learn.objectives.targets import MicroBatch, Taught
from bertc.learn.objectives.term import HeadInput, Predicted, TermLoss
from bertc.learn.objectives.terms import joined, states_of
from bertc.model import Model
from bertc.model.body import Outputs
from bertc.model.model import Frozen


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

    def __call__(self, batch: MicroBatch, outputs: Outputs) -> dict[str, TermLoss]:
        """The loss of every term by name, before weighting, then of predictions of one kind."""
        reading = batch.read_by(self._node)
        states = states_of(self._scored, batch, reading, outputs, self._node.body)
        drawn = (one.tensors.chances(batch.terms[one.name]) for one in self._others)
        chances = next((numbers for numbers in drawn if numbers is not None), None)
        predicted: dict[str, Predicted] = {}
        for one in self._scored:
            if one.name in batch.terms:
                layers = (*states[one.states], *one.tensors.taken(outputs, learned=True))
                read = HeadInput(layers, batch, self._heads[one.head], self._network, chances)
                predicted[one.scores] = one.tensors.score(batch.terms[one.name], read)
        losses = {
            one.name: one.tensors.loss(predicted[one.scores], batch.terms[one.name])
            if one.name in batch.terms
            else nothing(self._heads[one.head], outputs.last)
            for one in self._learned
        }
        for one in self._learned:
            for name in batch.named([one.name])[1:]:
                losses[name] = one.tensors.loss(predicted[one.scores], batch.terms[name])
        return losses


class Teaching:
    """The terms that a frozen network teaches, joined to their tensors and to its own heads."""

    def __init__(self, frozen: Frozen) -> None:
        self._frozen, self._scored = frozen, joined(frozen.network.scored)

    def __call__(self, batch: MicroBatch) -> MicroBatch:
        """The batch with what the network hands to each term; no gradient flows into it."""
        frozen, network = self._frozen, self._frozen.network
        reading = batch.read_by(network)
        outputs = frozen.read_on(reading, network.wanted)
        states = states_of(self._scored, batch, reading, outputs, network.body)
        before, taught = batch.taught or {}, {}
        with torch.no_grad():
            for one in (term for term in self._scored if term.name in batch.terms):
                layers = (*states[one.states], *one.tensors.taken(outputs, learned=False))
                head: Any = frozen.heads[one.head] if asks_head(one.tensors.node) else None
                read = HeadInput(layers, batch, head, frozen.encoder)
                output = Taught(network.share, one.tensors.taught(read))
                taught[one.name] = (*before.get(one.name, ()), output)
        return batch._replace(taught=taught)


def nothing(head: nn.Module, hidden: torch.Tensor) -> TermLoss:
    """A zero loss for a term without targets in this batch.

    It gives every weight of the head a zero gradient, so that Adam's step counts stay equal.
    """
    none = hidden.new_zeros((), dtype=torch.float32)
    touched = sum((weight.sum() * 0 for weight in head.parameters()), none)
    return TermLoss(touched, none, none)
