"""The match from a term's node to its tensors, and walks over the terms of a network.

A walk follows ``Network.scored``: output positions are concatenated in that order, and states are
handed out in the same order.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, assert_never

import torch

from bertc.ir.learning.custom_task import Embed
from bertc.ir.learning.objective import Objective
from bertc.ir.learning.task import Task
from bertc.ir.network.body import Body
from bertc.ir.program.stage import Stage
from bertc.ir.terms.clm import Clm
from bertc.ir.terms.kd import KdLogits
from bertc.ir.terms.kd_relations import KdAttention, KdRelations
from bertc.ir.terms.kd_states import KdCls, KdEmbeddings, KdHidden
from bertc.ir.terms.masked import Mlm, Tlm
from bertc.ir.terms.pairs import Nsp, Sop
from bertc.ir.terms.plm import Plm
from bertc.ir.terms.rtd import Restore, Rtd
from bertc.ir.terms.sbo import Sbo
from bertc.learn.objectives.answers import TaskTensors
from bertc.learn.objectives.clm import ClmTensors
from bertc.learn.objectives.kd import KdAnswersTensors, KdLogitsTensors
from bertc.learn.objectives.kd_layers import KdRelatedTensors, KdStatesTensors
from bertc.learn.objectives.mlm import MaskedTensors
from bertc.learn.objectives.pairs import EmbedTensors, PairTensors
from bertc.learn.objectives.plm import PlmTensors
from bertc.learn.objectives.rtd import RestoreTensors, RtdTensors
from bertc.learn.objectives.sbo import SboTensors
from bertc.learn.objectives.targets import MicroBatch
from bertc.learn.objectives.term import TermTensors
from bertc.model import EncoderInputs, gather_positions
from bertc.model.body import Outputs

AnyTensors = TermTensors[Any, Any, Any]


def tensors_of(objective: Objective) -> AnyTensors:
    """The tensor side of an objective."""
    match objective:
        case Mlm() | Tlm():
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
        case unreachable:
            assert_never(unreachable)


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
    return tuple(
        Joined(one.title, one.head_name, one.states.name, tensors_of(one)) for one in objectives
    )


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
            else torch.cat([p for some in one.values() for p in some or ()], 1)
            for count, one in zip(counts, by_states, strict=True)
        )
        batch = batch.with_positions(network, asked_bk, decoded_bk)
    return batch


def states_of(
    scored: tuple[Joined, ...],
    batch: MicroBatch,
    reading: EncoderInputs,
    outputs: Outputs,
    body: Body,
) -> dict[str, tuple[torch.Tensor, ...]]:
    """Split a network's states (b, ..., h) by the name of the states that terms read."""
    last, decoded = _both(scored, batch, body)
    states = _split(last, outputs.last, all_states=reading.output_positions is None)
    if not decoded:
        return states
    assert outputs.decoded is not None, "the network has a mask decoder"
    return states | _split(decoded, outputs.decoded, all_states=reading.decoded_positions is None)


Asked = dict[str, tuple[torch.Tensor, ...] | None]
"""Positions of the states that terms read, by the name of these; None: all."""


def _split(
    by_states: Asked, hidden: torch.Tensor, *, all_states: bool
) -> dict[str, tuple[torch.Tensor, ...]]:
    """Split states, of ``all_states`` rows or of the positions asked for, one after the other."""
    if all_states:
        return {
            name: (hidden,)
            if some is None
            else tuple(gather_positions(hidden, one) for one in some)
            for name, some in by_states.items()
        }
    sizes = [one.shape[1] for some in by_states.values() for one in some or ()]
    parts = list(torch.split(hidden, sizes, dim=1)) if sizes else []
    states: dict[str, tuple[torch.Tensor, ...]] = {}
    for name, some in by_states.items():
        count = 0 if some is None else len(some)
        states[name] = (hidden,) if some is None else tuple(parts[:count])
        parts = parts[count:]
    return states


def _both(scored: tuple[Joined, ...], batch: MicroBatch, body: Body) -> tuple[Asked, Asked]:
    """Positions of last states, and of a mask decoder's, if the batch has targets for them."""
    last: Asked = {}
    decoded: Asked = {}
    for one in scored:
        if one.name not in batch.terms:
            continue
        every = body.pooled.of_rows and one.tensors.node.states.pooled
        there = decoded if body.head.decoder and one.tensors.node.states.decoded else last
        there[one.states] = None if every else one.tensors.positions(batch.terms[one.name], batch)
    return last, decoded
