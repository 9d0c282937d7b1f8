"""The terms of a network: tensors for each node, and their losses as sums over parts of a batch."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bertc.ir.learning import Embed, Objective, Task
from bertc.ir.network.body import Body
from bertc.ir.program import Network, Stage
from bertc.ir.terms.kd import KdLogits
from bertc.ir.terms.kd_layers import KdAttention, KdCls, KdEmbeddings, KdHidden, KdRelations
from bertc.ir.terms.masked import Mlm, Mntp, Tlm
from bertc.ir.terms.node import asks_head
from bertc.ir.terms.own import OwnTerm
from bertc.ir.terms.pairs import Nsp, Sop
from bertc.ir.terms.plm import Clm, Plm
from bertc.ir.terms.rtd import Restore, Rtd
from bertc.ir.terms.sbo import Sbo
from bertc.learn.objectives.answers import TaskTensors
from bertc.learn.objectives.targets import MicroBatch, Taught
from bertc.learn.objectives.teaching.kd import KdAnswersTensors, KdLogitsTensors
from bertc.learn.objectives.teaching.kd_layers import KdRelatedTensors, KdStatesTensors
from bertc.learn.objectives.term import HeadInput, Predicted, TermLoss, TermTensors
from bertc.learn.objectives.text.mlm import MaskedTensors
from bertc.learn.objectives.text.own import OwnTensors
from bertc.learn.objectives.text.pairs import EmbedTensors, PairTensors
from bertc.learn.objectives.text.plm import ClmTensors, PlmTensors
from bertc.learn.objectives.text.rtd import RestoreTensors, RtdTensors
from bertc.learn.objectives.text.sbo import SboTensors
from bertc.model import Frozen, Model, Outputs, gather_positions

AnyTensors = TermTensors[Any, Any, Any]


def tensors_of(objective: Objective) -> AnyTensors:
    """The tensor side of an objective."""
    match objective:
        case Mlm() | Mntp() | Tlm():
            return MaskedTensors(objective)
        case Clm():
            return ClmTensors(objective)
        case Plm():
            return PlmTensors(objective)
        case Sbo():
            return SboTensors(objective)
        case Nsp() | Sop():
            return PairTensors(objective)
        case Rtd():
            return RtdTensors(objective)
        case Restore():
            return RestoreTensors(objective)
        case OwnTerm():
            return OwnTensors(objective)
        case Embed():
            return EmbedTensors(objective)
        case Task():
            return TaskTensors(objective)
        case KdLogits(labels=0):
            return KdLogitsTensors(objective)
        case KdLogits():
            return KdAnswersTensors(objective)
        case KdHidden() | KdEmbeddings() | KdCls():
            return KdStatesTensors(objective)
        case KdAttention() | KdRelations():
            return KdRelatedTensors(objective)


class Joined(NamedTuple):
    """An objective's tensors with the names of its loss, its head and the last states it reads."""

    name: str
    head: str
    states: str
    tensors: AnyTensors

    @property
    def scores(self) -> str:
        """The name of its scores: its head's, unless it is taught and has its own."""
        return self.name if self.tensors.node.teaching else self.head


def joined(objectives: Iterable[Objective]) -> tuple[Joined, ...]:
    """Join objectives to their tensors, in order."""
    return tuple(Joined(t.title, t.head_name, t.states.name, tensors_of(t)) for t in objectives)


def with_output_positions(stage: Stage, batch: MicroBatch) -> MicroBatch:
    """Add the output positions of every network that needs only some states."""
    for network in stage.networks():
        counts = network.num_outputs, network.num_decoded
        if counts == (None, None):
            continue
        by_states = _both(joined(network.scored), batch, network.body)
        asked_bk, decoded_bk = (
            None
            if count is None
            else torch.cat([p for some in asked.values() for p in some or ()], 1)
            for count, asked in zip(counts, by_states, strict=True)
        )
        batch = batch.with_positions(network, asked_bk, decoded_bk)
    return batch


def states_of(
    scored: tuple[Joined, ...], batch: MicroBatch, network: Network, outputs: Outputs
) -> dict[str, tuple[Tensor, ...]]:
    """Split a network's states (b, ..., h) by the name of the states that terms read."""
    reading, (last, decoded) = batch.read_by(network), _both(scored, batch, network.body)
    states = _split(last, outputs.last, reading.output_positions)
    if not decoded:
        return states
    assert outputs.decoded is not None, "the network has a mask decoder"
    return states | _split(decoded, outputs.decoded, reading.decoded_positions)


Asked = dict[str, tuple[Tensor, ...] | None]
"""Positions of the states that terms read, by the name of these; None: all."""


def _split(
    by_states: Asked, hidden: Tensor, computed_at: Tensor | None
) -> dict[str, tuple[Tensor, ...]]:
    """Split states, of all positions (None) or of those asked for, one after the other."""
    asked = [p for some in by_states.values() for p in some or ()]
    if computed_at is None:
        parts = [gather_positions(hidden, p) for p in asked]
    else:
        parts = list(torch.split(hidden, [p.shape[1] for p in asked], dim=1)) if asked else []
    states: dict[str, tuple[Tensor, ...]] = {}
    for name, some in by_states.items():
        count = len(some or ())
        states[name] = (hidden,) if some is None else tuple(parts[:count])
        parts = parts[count:]
    return states


def _both(scored: tuple[Joined, ...], batch: MicroBatch, body: Body) -> tuple[Asked, Asked]:
    """Positions of last states, and of a mask decoder's, if the batch has targets for them."""
    last: Asked = {}
    decoded: Asked = {}
    for term in scored:
        if term.name in batch.terms:
            read = term.tensors.node.states
            positions = term.tensors.positions(batch.terms[term.name], batch)
            by_states = decoded if body.head.decoder and read.decoded else last
            by_states[term.states] = None if body.pooled.of_rows and read.pooled else positions
    return last, decoded


class Losses:
    """The terms of one network with their tensors and heads; callable on a batch."""

    def __init__(self, model: Model, stage: Stage, network: Network) -> None:
        self._network, self._heads = model.network(network.name), model.heads
        self._node = network
        self._scored = joined(network.scored)
        learned = [term.objective for term in network.terms]
        self._learned = joined(learned) if learned else self._scored
        # Networks after this one may need its guesses.
        rest = (term.objective for term in stage.objective if term not in network.terms)
        self._guessed_for = joined(rest) if network.role == "sampled" else ()

    def __call__(self, batch: MicroBatch, outputs: Outputs) -> dict[str, TermLoss]:
        """The loss of every term by name, before weighting, then of predictions of one kind."""
        states = states_of(self._scored, batch, self._node, outputs)
        drawn = (term.tensors.chances(batch.terms[term.name]) for term in self._guessed_for)
        chances = next((numbers for numbers in drawn if numbers is not None), None)
        predicted: dict[str, Predicted] = {}
        for term in self._scored:
            if term.name in batch.terms:
                layers = (*states[term.states], *term.tensors.taken(outputs, learned=True))
                read = HeadInput(layers, batch, self._heads[term.head], self._network, chances)
                predicted[term.scores] = term.tensors.score(batch.terms[term.name], read)
        losses = {
            term.name: term.tensors.loss(predicted[term.scores], batch.terms[term.name])
            if term.name in batch.terms
            else nothing(self._heads[term.head], outputs.last)
            for term in self._learned
        }
        for term in self._learned:
            for name in batch.named([term.name])[1:]:
                losses[name] = term.tensors.loss(predicted[term.scores], batch.terms[name])
        return losses


class Teaching:
    """The terms that a frozen network teaches, joined to their tensors and to its own heads."""

    def __init__(self, frozen: Frozen) -> None:
        self._frozen, self._scored = frozen, joined(frozen.network.scored)

    def __call__(self, batch: MicroBatch) -> MicroBatch:
        """The batch with what the network hands to each term; no gradient flows into it."""
        frozen, network = self._frozen, self._frozen.network
        outputs = frozen.read_on(batch.read_by(network), network.wanted)
        states = states_of(self._scored, batch, network, outputs)
        before, taught = batch.taught or {}, {}
        with torch.no_grad():
            for term in (term for term in self._scored if term.name in batch.terms):
                layers = (*states[term.states], *term.tensors.taken(outputs, learned=False))
                head: Any = frozen.heads[term.head] if asks_head(term.tensors.node) else None
                read = HeadInput(layers, batch, head, frozen.encoder)
                output = Taught(network.share, term.tensors.taught(read))
                taught[term.name] = (*before.get(term.name, ()), output)
        return batch._replace(taught=taught)


def nothing(head: nn.Module, hidden: Tensor) -> TermLoss:
    """A zero loss for a term without targets in this batch.

    It gives every weight of the head a zero gradient, so that Adam's step counts stay equal.
    """
    none = hidden.new_zeros((), dtype=torch.float32)
    touched = sum((weight.sum() * 0 for weight in head.parameters()), none)
    return TermLoss(touched, none, none)
