"""Losses that compare the examples of a batch, which is read in parts or by several processes.

All vectors are made first, without gradient. Then each part is read again, with the same dropout,
and its vectors take their places among them: so gradients are those of the whole batch, in the
memory of a part (GradCache, Gao et al. 2021).

Axes: n examples of a part, m of the batch, t texts of an example, d numbers of a vector.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from bertc.ir.program.network import MAIN
from bertc.ir.program.stage import Stage
from bertc.learn.objectives import MicroBatch, WholeBatch
from bertc.learn.objectives.softmax.similarities import as_long
from bertc.learn.objectives.term import HeadInput
from bertc.learn.objectives.terms import joined, states_of
from bertc.machine.process_group import ProcessGroup
from bertc.model import Model

BatchVectors = Callable[[MicroBatch], tuple[Tensor, Tensor]]
"""From a micro-batch to vectors (n, t, d) of its examples, and their scores (n, t)."""


def batch_vectors(model: Model, stage: Stage) -> BatchVectors:
    """The forward pass of the term of a batch that compares its examples."""

    def vectors(micro_batch: MicroBatch) -> tuple[Tensor, Tensor]:
        network = next(candidate for candidate in stage.networks() if candidate.name == MAIN)
        scored = joined(network.scored)
        tasks = {task.title for task in stage.tasks if task.compares_examples}
        comparing = [term for term in scored if term.name in tasks]
        term = next(candidate for candidate in comparing if candidate.name in micro_batch.terms)
        reading = micro_batch.read_by(network)
        outputs = model.read_on(reading, network.name, network.wanted)
        states = states_of(scored, micro_batch, reading, outputs, network.body)
        targets, body = micro_batch.terms[term.name], model.network(network.name)
        both: tuple[Tensor, Tensor] = term.tensors.compared_vectors(
            targets, HeadInput(states[term.states], micro_batch, model.heads[term.head], body)
        )
        return both

    return vectors


def compares(stage: Stage, micro_batch: MicroBatch) -> bool:
    """True if the loss of a batch compares its examples."""
    terms = [task for task in stage.tasks if task.compares_examples]
    return any(term.title in micro_batch.terms for term in terms)


def beside_all(
    parts: Sequence[MicroBatch],
    vectors_and_scores: Sequence[tuple[Tensor, Tensor]],
    batch: int,
    ranks: ProcessGroup,
) -> list[MicroBatch]:
    """The parts of a batch with the vectors of all of it. A collective call."""
    of_parts, scores = zip(*vectors_and_scores, strict=True)
    if of_parts[0].dim() == 4:  # of tokens, and parts are as long as their longest text
        longest = -ranks.least(-max(part.shape[2] for part in of_parts))
        of_parts = tuple(as_long(part, longest) for part in of_parts)
    vectors_ntd, scores_nt = torch.cat(of_parts), torch.cat(scores)
    first = ranks.rows(batch).start
    vectors_mtd = vectors_ntd.new_zeros(batch, *vectors_ntd.shape[1:])
    scores_mt = scores_nt.new_zeros(batch, scores_nt.shape[1])
    vectors_mtd[first : first + len(vectors_ntd)] = vectors_ntd
    scores_mt[first : first + len(scores_nt)] = scores_nt
    ranks.add(vectors_mtd)
    ranks.add(scores_mt)
    sizes = [len(own_ntd) for own_ntd, _ in vectors_and_scores[:-1]]
    starts = list(accumulate(sizes, initial=first))
    starts += starts[-1:] * (len(parts) - len(starts))
    return [
        part._replace(whole_batch=WholeBatch(vectors_mtd, scores_mt, start))
        for part, start in zip(parts, starts, strict=True)
    ]
