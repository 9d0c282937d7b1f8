"""Forward pass and losses of one micro-batch, and the divisors of its losses.

Axes: b batch, s sequence, h hidden; t terms of the objective. Where examples are compared: n
examples of a part, m of the batch, t texts of an example, d numbers of a vector.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import accumulate

import torch
from torch import Tensor

from bertc.ir.network.head import AdaptiveHead
from bertc.ir.program import MAIN, Network, Stage, find_frozen_part
from bertc.learn.objectives import HeadInput, Losses, MicroBatch, Teaching, tensors_of, with_guesses
from bertc.learn.objectives.softmax.similarities import as_long
from bertc.learn.objectives.targets import WholeBatch
from bertc.learn.objectives.terms import joined, states_of
from bertc.learn.step.engines import Objective
from bertc.machine.process_group import ProcessGroup
from bertc.model import BodyModule, Frozen, Memory, Model, Outputs, profile_as


def batch_vectors(model: Model, stage: Stage, micro_batch: MicroBatch) -> tuple[Tensor, Tensor]:
    """Vectors (n, t, d) of examples and their scores (n, t), of the term that compares them."""
    network = next(network for network in stage.networks() if network.name == MAIN)
    scored, tasks = joined(network.scored), {t.title for t in stage.tasks if t.compares_examples}
    comparing = (term for term in scored if term.name in tasks)
    term = next(term for term in comparing if term.name in micro_batch.terms)
    outputs = model.read_on(micro_batch.read_by(network), request=network.wanted)
    states = states_of(scored, micro_batch, network, outputs)[term.states]
    read = HeadInput(states, micro_batch, model.heads[term.head], model.network(MAIN))
    return term.tensors.compared_vectors(micro_batch.terms[term.name], read)


def compares(stage: Stage, micro_batch: MicroBatch) -> bool:
    """True if the loss of a batch compares its examples."""
    return any(task.compares_examples and task.title in micro_batch.terms for task in stage.tasks)


def beside_all(
    parts: Sequence[MicroBatch],
    vectors_and_scores: Sequence[tuple[Tensor, Tensor]],
    batch: int,
    ranks: ProcessGroup,
) -> list[MicroBatch]:
    """The parts of a batch with the vectors of all of it, made without gradient. A collective call.

    Each part is read again, with the same dropout, and its vectors take their places among them: so
    gradients are those of the whole batch, in the memory of a part (GradCache, Gao et al. 2021).
    """
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


LEAST_WEIGHT = 1e-6
"""The least sum of weights that a loss is divided by."""


def kinds(stage: Stage) -> tuple[str, ...]:
    """Names of the terms, in order."""
    return tuple(term.name for term in stage.objective)


def make_objective(
    model: Model, stage: Stage, compiled: bool, frozen: Sequence[Frozen] = ()
) -> Objective:
    """Forward pass and losses of one micro-batch, with static shapes."""
    names, networks = kinds(stage), stage.networks()
    unchanged = {n.name for n in networks if n.role == "trained" and find_frozen_part(stage).whole}
    learned = (network for network in networks if network.learned)
    scores = {network.name: _scoring(model, stage, network, compiled) for network in learned}
    for teacher in frozen if compiled else ():
        teacher.encoder.compile_regions()
    teachers = {teacher.network.name: Teaching(teacher) for teacher in frozen}

    def objective(
        micro_batch: MicroBatch, factors_t: Tensor
    ) -> tuple[Tensor, Tensor, Memory | None]:
        with profile_as("head"):  # what is no body's part, within, is the head's
            statistics_by_term: dict[str, Tensor] = {}
            losses_n: list[Tensor] = []
            memory: Memory | None = None
            for network in networks:
                if not network.learned:
                    with profile_as("teacher"):
                        micro_batch = teachers[network.name](micro_batch)
                    continue
                with nullcontext() if network.terms else torch.no_grad():
                    body = model.network(network.name)
                    with unchanging(body) if network.name in unchanged else nullcontext():
                        read = micro_batch.read_by(network)
                        outputs = model.read_on(read, network.name, network.wanted)
                    # Only the networks read the memory.
                    loss, statistics, guesses_bk = scores[network.name](
                        remembering(micro_batch, None), factors_t, outputs._replace(memory=None)
                    )
                if guesses_bk is not None:
                    micro_batch = with_guesses(stage, micro_batch, guesses_bk)
                of_network = micro_batch.named(term.name for term in network.terms)
                statistics_by_term |= dict(zip(of_network, statistics.unbind(1), strict=True))
                losses_n.append(loss)
                memory = outputs.memory
            named = micro_batch.named(names)
            statistics = torch.stack([statistics_by_term[name] for name in named], dim=1)
            return sum(losses_n[1:], losses_n[0]), statistics, memory

    return objective


@contextmanager
def unchanging(network: BodyModule) -> Iterator[None]:
    """Inside this block a network is in evaluation mode, and has no gradient."""
    training = network.training
    network.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        network.train(training)


Scoring = Callable[[MicroBatch, Tensor, Outputs], tuple[Tensor, Tensor, Tensor | None]]
"""From batch, factors (t,) and outputs to loss, statistics of the terms, and guesses.

Statistics (3, terms of the network): loss sums, hits, and for binary terms the number of positive
answers; in evaluations then those of predictions of one kind."""


def _scoring(model: Model, stage: Stage, network: Network, compiled: bool) -> Scoring:
    names = [term.name for term in network.terms]
    places = [kinds(stage).index(name) for name in names]
    losses = Losses(model, stage, network)

    def loss(
        micro_batch: MicroBatch, factors_t: Tensor, outputs: Outputs
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        terms, hidden_bsh = losses(micro_batch, outputs), outputs.last
        guesses = (term.guesses for term in terms.values())
        guesses_bk = next((sampled for sampled in guesses if sampled is not None), None)
        if not names:
            return hidden_bsh.new_zeros(()), hidden_bsh.new_zeros(3, 0), guesses_bk
        all_terms = list(terms.values())  # those of names first
        sums_t = torch.stack([term.sum.float() for term in all_terms])
        hits_t = torch.stack([term.correct.float() for term in all_terms])
        none = sums_t.new_zeros(())
        yes_t = torch.stack([none if t.yes is None else t.yes.float() for t in all_terms])
        own_t = torch.stack([factors_t[place] for place in places])
        statistics = torch.stack([sums_t.detach(), hits_t, yes_t])
        # In training there are no others: a slice of all would be a launch backward.
        learned_t = sums_t if len(all_terms) == len(names) else sums_t[: len(names)]
        return (learned_t * own_t).sum(), statistics, guesses_bk

    if not compiled:
        return loss
    # With DDP the compiler would cut a layer where a gradient bucket is full.
    torch._dynamo.config.optimize_ddp = False
    model.network(network.name).compile_regions(any_shape=bool(stage.tasks))
    if stage.tasks or isinstance(network.body.head, AdaptiveHead):
        return loss  # tasks: small; adaptive heads: sizes depend on the text
    return torch.compile(loss, fullgraph=True, dynamic=False)


def remembering(micro_batch: MicroBatch, memory: Memory | None) -> MicroBatch:
    """The same batch with a memory before its rows."""
    return micro_batch._replace(reading=micro_batch.reading._replace(memory=memory))


def counts(stage: Stage, parts: Sequence[MicroBatch]) -> Tensor:
    """Number of predictions of each term (t,) over all parts of a batch, known before any loss."""
    counted = []
    for term in stage.objective:
        count = tensors_of(term.objective).count
        numbers = [count(part.terms[term.name]) for part in parts if term.name in part.terms]
        counted.append(torch.stack(numbers or [parts[0].originals.new_zeros(()).float()]).sum())
    return torch.stack(counted)


def divisors(stage: Stage, counts_t: Tensor) -> Tensor:
    """Divisors (t,) of the summed losses of a whole batch; never 0.

    A term without predictions has a loss of 0; weights of classes may sum to less than 1.
    """
    # Python numbers go to the device with the kernels; tensors made here would need a copy.
    more = (tensors_of(term.objective).divisor_extra for term in stage.objective)
    return torch.stack([n + e for n, e in zip(counts_t, more, strict=True)]).clamp(min=LEAST_WEIGHT)
