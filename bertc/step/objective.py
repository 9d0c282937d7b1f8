"""Forward pass and losses of one micro-batch, and what its losses are divided by.

Axes: b batch, s sequence, h hidden; t terms of the objective.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from bertc.distributed.engines import Objective
from bertc.ir.learning.objective import Term
from bertc.ir.network.head import AdaptiveHead
from bertc.ir.program.network import Network
from bertc.ir.program.resolved import Stage
from bertc.nn import Memory, Model
from bertc.objectives import Columns, Losses, tensors_of, with_guesses


def kinds(stage: Stage) -> tuple[str, ...]:
    """The names of the terms, in their order."""
    return tuple(term.name for term in stage.objective)


def term_weights(stage: Stage) -> tuple[float, ...]:
    """The factors of the terms, in their order."""
    return tuple(term.weight for term in stage.objective)


def make_objective(model: Model, stage: Stage, compiled: bool) -> Objective:
    """Forward pass and losses of one micro-batch, of static shapes.

    The networks of a stage read one after the other, each what those before it made.
    """
    names, networks = kinds(stage), stage.networks()
    scores = [_scoring(model, stage, network, compiled) for network in networks]

    def objective(columns: Columns, factors_t: Tensor) -> tuple[Tensor, Tensor, Memory | None]:
        found: dict[str, Tensor] = {}
        losses_n: list[Tensor] = []
        memory: Memory | None = None
        for network, score in zip(networks, scores, strict=True):
            with nullcontext() if network.terms else torch.no_grad():
                outputs = model.read_on(columns.read_by(network), network.name)
                # What is remembered is read by the networks alone.
                loss, statistics, guesses_bk = score(
                    remembering(columns, None), factors_t, outputs.last
                )
            if guesses_bk is not None:
                columns = with_guesses(stage, columns, guesses_bk)
            own = (term.name for term in network.terms)
            found |= dict(zip(own, statistics.unbind(1), strict=True))
            losses_n.append(loss)
            memory = outputs.memory
        statistics = torch.stack([found[name] for name in names], dim=1)
        return sum(losses_n[1:], losses_n[0]), statistics, memory

    return objective


Scoring = Callable[[Columns, Tensor, Tensor], tuple[Tensor, Tensor, Tensor | None]]
"""Columns, factors (t,), a network's states to its loss, its terms' statistics, and guesses.

Statistics (3, own terms) are sums, hits, and of questions how many answers are yes.
"""


def _scoring(model: Model, stage: Stage, network: Network, compiled: bool) -> Scoring:
    """The heads of one network."""
    names = [term.name for term in network.terms]
    places = [kinds(stage).index(name) for name in names]
    losses = Losses(model, stage, network)

    def loss(
        columns: Columns, factors_t: Tensor, hidden_bsh: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        terms = losses(columns, hidden_bsh)
        guesses = (term.guesses for term in terms.values())
        guesses_bk = next((found for found in guesses if found is not None), None)
        if not names:
            return hidden_bsh.new_zeros(()), hidden_bsh.new_zeros(3, 0), guesses_bk
        sums_t = torch.stack([terms[name].sum.float() for name in names])
        hits_t = torch.stack([terms[name].correct.float() for name in names])
        yes_t = torch.stack(
            [sums_t.new_zeros(()) if (yes := terms[n].yes) is None else yes.float() for n in names]
        )
        own_t = torch.stack([factors_t[place] for place in places])
        return (sums_t * own_t).sum(), torch.stack([sums_t.detach(), hits_t, yes_t]), guesses_bk

    if not compiled:
        return loss
    # DDP would have its compiler cut a layer where a bucket of gradients is full.
    torch._dynamo.config.optimize_ddp = False
    model.network(network.name).compile_regions(any_shape=bool(stage.tasks))
    if stage.tasks or isinstance(network.body.head, AdaptiveHead):
        return loss  # of a task it is small; how many states a cluster judges the text says
    return torch.compile(loss, fullgraph=True, dynamic=False)


def remembering(columns: Columns, memory: Memory | None) -> Columns:
    """The same columns with this memory before the rows."""
    return columns._replace(reading=columns.reading._replace(memory=memory))


def counts(stage: Stage, parts: Sequence[Columns]) -> Tensor:
    """The predictions of each term (t,) in all parts of a batch, known before any loss is."""
    return torch.stack([_count(term, parts) for term in stage.objective])


def divisors(stage: Stage, counts_t: Tensor) -> Tensor:
    """What the summed losses of a whole batch are divided by (t,); never 0."""
    # Python numbers go to the device with the kernels; tensors made here would have to be copied.
    extra = (term.objective.divisor_extra for term in stage.objective)
    return torch.stack([n + e for n, e in zip(counts_t, extra, strict=True)]).clamp(min=1)


def _count(term: Term, parts: Sequence[Columns]) -> Tensor:
    tensors = tensors_of(term.objective)
    found = [tensors.count(part.terms[term.name]) for part in parts if term.name in part.terms]
    return torch.stack(found).sum() if found else parts[0].originals.new_zeros(()).float()
