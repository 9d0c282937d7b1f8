"""One optimiser step: corrupt, forward and backward in micro-batches, clip, update.

Axes: b batch, s sequence; t terms of the objective.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from bertc.diagnostics import DataError
from bertc.distributed.engines import Engine, Objective
from bertc.distributed.process_group import ALONE, ProcessGroup
from bertc.ir.address import key
from bertc.ir.learning.objective import Term
from bertc.ir.network.head import AdaptiveHead
from bertc.ir.program.resolved import Network, Stage
from bertc.nn import Memory, Model
from bertc.nn.exact import exact
from bertc.objectives import Columns, Inputs, Losses, Tables, tensors_of, with_guesses
from bertc.optim.optimizers import Rule, clip, gradient_norm, guard
from bertc.step.feed import Batch, corruption
from bertc.step.memory import Remembered, beginning, joined
from bertc.step.non_finite import what_is_not_finite, what_to_try


@dataclass(frozen=True)
class StepResult:
    """What an update was made of: losses in nats, each a mean over the whole batch.

    A term that the batch holds nothing for has none.
    """

    loss: float
    losses: dict[str, float]
    grad_norm: float


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
                states, memory = model.read_on(columns.read_by(network.name), network.name)
                # What is remembered is read by the networks alone.
                loss, statistics, guesses_bk = score(remembering(columns, None), factors_t, states)
            if guesses_bk is not None:
                columns = with_guesses(stage, columns, guesses_bk)
            own = (term.name for term in network.terms)
            found |= dict(zip(own, statistics.unbind(1), strict=True))
            losses_n.append(loss)
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
    if stage.tasks or isinstance(network.encoder.head, AdaptiveHead):
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


class TrainStep:
    """The step of one stage. Weights, moments and gradients are fp32 whatever the arithmetic.

    Of several processes each works on its examples of the batch, and ``copies`` of them hold the
    same gradient when it is added up.
    """

    def __init__(
        self,
        model: Model,
        stage: Stage,
        tables: Tables,
        rule: Rule,
        objective: Objective,
        microbatch: int,
        seed: int,
        ranks: ProcessGroup = ALONE,
        engine: Engine | None = None,
        copies: int = 1,
        remembered: Remembered | None = None,
    ) -> None:
        self._remembered = remembered or Remembered()
        self._ranks, self._copies, self._device = ranks, copies, next(model.parameters()).device
        self._accumulating = engine.accumulating if engine else nullcontext
        self._keeps_gradients = engine is not None and engine.keeps_gradients
        self._model, self.stage, self._tables = model, stage, tables
        self._rule, self._objective = rule, objective
        self._microbatch, self._seed = microbatch, seed
        self.corrupt = corruption(stage, tables, seed, microbatch, self._device)
        """What makes of inputs the columns that a step reads."""
        parameters = engine.parameters if engine else dict(model.named_parameters())
        self.parameters: Mapping[str, Tensor] = parameters

    def __call__(
        self, batch: Batch, step: int, rate: float, meanwhile: Callable[[], None] | None = None
    ) -> StepResult:
        """Update the weights by the batch of step ``step``, counted from the start of the run.

        ``meanwhile`` is called while the device works, before any weight has moved: if it fails,
        they are as before.

        Raises:
            DataError: if a loss or the gradient is not finite; the weights are as before.
            StoppedError: between two micro-batches, if someone asked for it; so are they then.
        """
        stage, names = self.stage, kinds(self.stage)
        missing = self._missing(len(batch.columns))
        sums, counts_t, memory = self.gradients(batch.columns, step, missing)
        norm = gradient_norm(self.parameters)
        ranks, terms, limit = self._ranks, len(names), stage.optimizer.clip
        shared = torch.cat([exact(torch.stack(sums)).sum(0), exact(norm).square()[None]])
        shared = torch.cat([shared, *ranks.signal_flags(shared)])
        ranks.add(shared)
        if meanwhile is not None:
            meanwhile()
        if self._rule.takes_guard:
            # The device knows whether the step is good; this process need not, to give it the rest.
            squared_norm = shared[terms] / self._copies
            self._rule.update(rate, guard(shared[:terms], squared_norm, limit))
        # The one wait for the device in a step.
        flat = torch.cat([shared, counts_t, *sums]).tolist()
        totals, (squared, *flags), flat = (
            flat[:terms],
            flat[terms : len(shared)],
            flat[len(shared) :],
        )
        counted, *parts = [flat[i : i + terms] for i in range(0, len(flat), terms)]
        divided_by = divisors(stage, torch.tensor(counted)).tolist()
        grad_norm = math.sqrt(squared / self._copies) if squared >= 0 else math.nan
        self._refuse_non_finite(totals, parts, grad_norm, step, batch.inputs)

        if not self._rule.takes_guard:
            clip(self.parameters, grad_norm, limit)
            self._rule.update(rate)
        self._remembered.memory = memory
        ranks.receive_signals(flags)

        means = {name: totals[t] / divided_by[t] for t, name in enumerate(names) if counted[t]}
        weights = dict(zip(names, term_weights(stage), strict=True))
        total = math.fsum(weights[name] * value for name, value in means.items())
        return StepResult(total, means, grad_norm)

    def read(self, inputs: Inputs) -> Batch:
        """What a step reads of these examples, if they are its whole batch."""
        return Batch(inputs, self.corrupt(inputs, len(inputs.lengths))[0])

    def rehearse(self, inputs: Inputs, microbatch: int) -> None:
        """Forward and backward of one micro-batch, to compile them or to see whether they fit."""
        first = Inputs(*(tensor[:microbatch] for tensor in inputs))
        corrupt = corruption(self.stage, self._tables, self._seed, microbatch, self._device)
        self.try_out(corrupt(first, len(first.lengths))[0])

    def try_out(self, columns: list[Columns]) -> None:
        """Forward and backward alone."""
        self.gradients(columns, 0)
        self._drop_gradients()

    def _missing(self, parts: int) -> int:
        """Micro-batches that the process with the most examples has beyond these."""
        if not self._ranks.is_distributed:
            return 0
        return -(-self._ranks.world.share(self.stage.batch) // self._microbatch) - parts

    def gradients(
        self, columns: list[Columns], step: int, missing: int = 0
    ) -> tuple[list[Tensor], Tensor, Memory | None]:
        """Leave the gradient of a whole batch in the weights; sums (t,) a part, counts (t,).

        And the memory that the next batch goes on from.

        All processes meet in every micro-batch, so one with fewer repeats its last, to no effect.
        """
        self._drop_gradients()
        # Each term is a mean over the predictions of the whole batch, so counts come first.
        counts_t = counts(self.stage, columns)
        self._ranks.add(counts_t)
        divisors_t = divisors(self.stage, counts_t)
        weights = [w * self._ranks.world.size for w in term_weights(self.stage)]
        factors_t = torch.stack([w / n for w, n in zip(weights, divisors_t, strict=True)])
        first = self._ranks.rows(self.stage.batch).start
        sums, last = [], len(columns) + missing - 1
        before, memories = self._memories(columns), list[Memory | None]()
        for index, part in enumerate(columns + columns[-1:] * missing):
            self._ranks.stop.check()  # of several processes none has agreed to it here
            part = remembering(part, before[min(index, len(before) - 1)])
            repeated = index >= len(columns)
            place = (index, first) if first else (index,)
            torch.manual_seed(key(self._seed, "dropout", step, *place))
            with nullcontext() if index == last else self._accumulating():
                loss, statistics, memory = self._objective(
                    part, factors_t * 0 if repeated else factors_t
                )
                loss.backward()  # type: ignore[no-untyped-call]
            if not repeated:
                sums.append(statistics[0])
                memories.append(memory)
        return sums, counts_t, joined(memories)

    def _memories(self, columns: list[Columns]) -> list[Memory | None]:
        """What the rows of each micro-batch remember."""
        first = 0
        found: list[Memory | None] = []
        memory = self._remembered.memory
        if memory is None:
            device, rows = columns[0].originals.device, self._ranks.rows(self.stage.batch)
            memory = beginning(self._model, self.stage, rows.stop - rows.start, device)
        for part in columns:
            rows = slice(first, first + len(part.originals))
            found.append(memory and memory.rows(rows))
            first = rows.stop
        return found

    def _drop_gradients(self) -> None:
        for parameter in self.parameters.values():
            if self._keeps_gradients and parameter.requires_grad and parameter.grad is not None:
                parameter.grad.zero_()
            else:
                parameter.grad = None

    def _refuse_non_finite(
        self,
        totals: list[float],
        parts: list[list[float]],
        grad_norm: float,
        step: int,
        inputs: Inputs | None,
    ) -> None:
        if all(map(math.isfinite, (*totals, grad_norm))):
            return
        ids = inputs.example_ids.tolist() if inputs else []
        found = what_is_not_finite(kinds(self.stage), totals, parts, ids, self._microbatch)
        found = self._ranks.first_message(found)
        with self._ranks.raise_on_all():
            raise DataError(
                f"step {step}: {found}; the weights were left as they were", help=what_to_try(step)
            )
