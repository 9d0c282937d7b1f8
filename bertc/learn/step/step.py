"""One optimiser step: forward and backward in micro-batches, gradient norm, clipping, update.

Axes: b batch, s sequence; t terms of the objective.
"""

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from bertc.base.diagnostics import DataError
from bertc.ir.address import key
from bertc.ir.program import Stage, rows_by_direction, split_rows
from bertc.learn.objectives import Inputs, MicroBatch, VocabTensors
from bertc.learn.optim.optimizers import Guard, UpdateRule, clip, clip_tensors, gradient_norm, guard
from bertc.learn.step import objective as losses
from bertc.learn.step.engines import Engine, Objective
from bertc.learn.step.feed import Batch
from bertc.learn.step.memory import Remembered, joined, with_counts
from bertc.learn.step.micro_batches import corruption
from bertc.machine.process_group import ALONE, ProcessGroup
from bertc.model import Memory, Model, profile_as

CALMER = (
    "a lower learning rate, a longer warm-up or precision=fp32, in a new run; "
    "checkpoints up to here are good"
)
AT_THE_BEGINNING = (
    "the weights are still the initial ones, so it is not the learning rate: try precision=fp32 "
    "to rule out rounding, and bertc train with compile=off to rule out the compiler"
)


@dataclass(frozen=True)
class StepResult:
    """Results of an update: losses in nats, each a mean over the whole batch."""

    loss: float
    losses: dict[str, float]  # of the terms with targets in the batch
    grad_norm: float


class TrainStep:
    """The step of one stage; weights, moments and gradients are fp32 in every precision.

    Each of several processes computes its examples of the batch; ``copies`` of them hold the same
    gradient when gradients are summed.
    """

    def __init__(
        self,
        model: Model,
        stage: Stage,
        vocab: VocabTensors,
        rule: UpdateRule,
        objective: Objective,
        microbatch: int,
        ranks: ProcessGroup = ALONE,
        engine: Engine | None = None,
        copies: int = 1,
        remembered: Remembered | None = None,
    ) -> None:
        self._remembered = remembered or Remembered()
        self._ranks, self._copies, self._device = ranks, copies, next(model.parameters()).device
        self._engine = engine or Engine(model, self._device)
        self.parameters: Mapping[str, Tensor] = self._engine.parameters
        self._model, self.stage, self._vocab = model, stage, vocab
        self._rule, self._objective = rule, objective
        self._microbatch, self._run_seed = microbatch, model.resolved.run.seed
        self._first = self._ranks.rows(stage.batch).start
        self._remembered.begin_types(stage, self._device)
        self.corrupt = corruption(
            stage, vocab, self._run_seed, microbatch, self._first, self._remembered
        )
        """The function from inputs to the micro-batches of a step."""
        vectors = partial(losses.batch_vectors, model, stage)
        self._batch_vectors = self._engine.wrap_for_inference(vectors)

    def __call__(
        self, batch: Batch, step: int, rate: float, meanwhile: Callable[[], None] | None = None
    ) -> StepResult:
        """Update the weights by the batch of step ``step``, counted from the start of the run.

        ``meanwhile`` is called while the device works, before any weight changes: if it raises,
        weights are as before. So they are if a loss or the gradient is not finite (DataError), or
        if a stop was requested between two micro-batches (StoppedError).
        """
        stage, ranks, names = self.stage, self._ranks, losses.kinds(self.stage)
        # Fewer than the process with most examples has: all take part in as many.
        missing = self._most_parts - len(batch.micro_batches) if ranks.is_distributed else 0
        sums, counts_t, memory = self.gradients(batch.micro_batches, step, missing)
        self._remembered.count_types(batch.micro_batches, stage, step, ranks)
        norm, terms, limit = gradient_norm(self.parameters), len(names), stage.optimizer.clip
        shared = torch.cat([torch.stack(sums).double().sum(0), norm.double().square()[None]])
        shared = torch.cat([shared, *ranks.signal_flags(shared)])
        ranks.add(shared)
        if meanwhile is not None:
            meanwhile()
        if limit and stage.optimizer.clip_per == "tensor":
            clip_tensors(self.parameters, limit, ranks.add, self._copies)
            limit = 0.0
        if self._rule.takes_guard:
            # The device decides whether the step is good; the host need not wait to queue the rest.
            squared_norm = shared[terms] / self._copies
            self._update(rate, guard(shared[:terms], squared_norm, limit))
        # The only device synchronisation of a step.
        all_numbers = torch.cat([shared, counts_t, *sums]).tolist()
        totals, (squared, *flags) = all_numbers[:terms], all_numbers[terms : len(shared)]
        flat = all_numbers[len(shared) :]
        counted, *parts = [flat[i : i + terms] for i in range(0, len(flat), terms)]
        divided_by = losses.divisors(stage, torch.tensor(counted)).tolist()
        grad_norm = math.sqrt(squared / self._copies) if squared >= 0 else math.nan
        self._refuse_non_finite(totals, parts, grad_norm, step, batch)

        if not self._rule.takes_guard:
            clip(self.parameters, grad_norm, limit)
            self._update(rate)
        self._remembered.memory, self._remembered.types = memory, self._remembered.following
        ranks.receive_signals(flags)

        means = {name: totals[t] / divided_by[t] for t, name in enumerate(names) if counted[t]}
        weights = {term.name: term.weight for term in stage.objective}
        total = math.fsum(weights[name] * value for name, value in means.items())
        return StepResult(total, means, grad_norm)

    def _update(self, rate: float, checked: Guard | None = None) -> None:
        with profile_as("optimiser"):
            self._rule.update(rate, checked)

    def read(self, inputs: Inputs) -> Batch:
        """Corrupt these examples, as a whole batch."""
        return Batch(inputs, self.corrupt(inputs, len(inputs.lengths))[0])

    def rehearse(self, inputs: Inputs, microbatch: int) -> None:
        """Forward and backward of a micro-batch a direction, to compile them or see if they fit."""
        if len(split_rows(self.stage)) == 1:
            inputs = Inputs(*(tensor[:microbatch] for tensor in inputs))
        corrupt = corruption(self.stage, self._vocab, self._run_seed, microbatch, self._first)
        parts = corrupt(inputs, len(inputs.lengths))[0]
        self.try_out([*{part.reading.causal: part for part in reversed(parts)}.values()])

    def try_out(self, micro_batches: list[MicroBatch]) -> None:
        """Forward and backward without an update."""
        self.gradients(micro_batches, 0)
        self._drop_gradients()

    @cached_property
    def _most_parts(self) -> int:
        """The largest number of micro-batches that any process has."""
        world, batch = self._ranks.world, self.stage.batch
        parts = (world.rows(rank, batch) for rank in range(world.size))
        shares = (rows_by_direction(self.stage, range(part.start, part.stop)) for part in parts)
        return max(sum(-(-len(rows) // self._microbatch) for rows in share) for share in shares)

    def gradients(
        self, micro_batches: list[MicroBatch], step: int, missing: int = 0
    ) -> tuple[list[Tensor], Tensor, Memory | None]:
        """Accumulate the gradient of a whole batch in the weights; sums (t,) per part, counts (t,).

        Also returns the memory for the next batch. All processes take part in every micro-batch, so
        one with fewer repeats its last, with factor 0.
        """
        self._drop_gradients()
        # Each term is a mean over the predictions of the whole batch, so counts come first.
        counts_t = losses.counts(self.stage, micro_batches)
        self._ranks.add(counts_t)
        divisors_t = losses.divisors(self.stage, counts_t)
        weights = [term.weight * self._ranks.world.size for term in self.stage.objective]
        factors_t = torch.stack([w / n for w, n in zip(weights, divisors_t, strict=True)])
        sums, last = [], len(micro_batches) + missing - 1
        before = self._remembered.of_parts(micro_batches, self._model, self.stage, self._ranks)
        memories: list[Memory | None] = []
        # Predictions of the one that is repeated have been counted.
        parts = micro_batches + with_counts(micro_batches[-1:] * missing, self.stage)
        if losses.compares(self.stage, parts[0]):
            over = max(0, step - self.stage.first_step) / self.stage.steps
            parts = [part._replace(over=over) for part in parts]
            if last or self._ranks.is_distributed:
                parts = self._beside_all(parts, len(micro_batches), step)
        for index, part in enumerate(parts):
            self._ranks.stop.check()  # with several processes the request is not yet agreed on here
            part = losses.remembering(part, before[min(index, len(before) - 1)])
            repeated = index >= len(micro_batches)
            self._seed(step, index)
            with nullcontext() if index == last else self._engine.accumulating():
                factors = factors_t * 0 if repeated else factors_t
                loss, statistics, memory = self._objective(part, factors)
                loss.backward()  # type: ignore[no-untyped-call]
            if not repeated:
                sums.append(statistics[0])
                memories.append(memory)
        return sums, counts_t, joined(memories)

    def _beside_all(self, parts: list[MicroBatch], unrepeated: int, step: int) -> list[MicroBatch]:
        """Parts of a batch with the vectors of all of it; the first ``unrepeated`` are its own."""
        of_parts = []
        for index, part in enumerate(parts):
            self._ranks.stop.check()
            self._seed(step, index)
            # Without gradients other kernels run, which draw other dropout. No name holds a graph.
            vectors, scores = (tensor.detach() for tensor in self._batch_vectors(part))
            of_parts.append((vectors, scores))
        return losses.beside_all(parts, of_parts[:unrepeated], self.stage.batch, self._ranks)

    def _seed(self, step: int, index: int) -> None:
        """Seed the dropout of a micro-batch of this process."""
        place = (index, self._first) if self._first else (index,)
        counted_step = step + max(0, -self.stage.counted_from)
        _seed_draws(self._device, key(self._run_seed, "dropout", counted_step, *place))

    def _drop_gradients(self) -> None:
        keeps = self._engine.keeps_gradients
        for parameter in self.parameters.values():
            if keeps and parameter.requires_grad and parameter.grad is not None:
                parameter.grad.zero_()
            else:
                parameter.grad = None

    def _refuse_non_finite(
        self, totals: list[float], parts: list[list[float]], norm: float, step: int, batch: Batch
    ) -> None:
        if all(map(math.isfinite, (*totals, norm))):
            return
        fault = self._ranks.first_message(self._fault(totals, parts, batch.inputs))
        with self._ranks.raise_on_all():
            message = f"step {step}: {fault}; the weights are unchanged"
            raise DataError(message, CALMER if step else AT_THE_BEGINNING)

    def _fault(self, totals: list[float], parts: list[list[float]], inputs: Inputs | None) -> str:
        """Name the loss or gradient that is not finite, and its examples if they are known here."""
        names = losses.kinds(self.stage)
        ids = inputs.example_ids.tolist() if inputs and not split_rows(self.stage)[1:] else []
        fault = f"the gradient of {' + '.join(names)} is not finite though the loss is"
        where = "batch"
        if not all(map(math.isfinite, totals)):
            by_part = [
                [name for name, value in zip(names, part, strict=True) if not math.isfinite(value)]
                for part in parts
            ]
            index = next((index for index, bad in enumerate(by_part) if bad), None)
            if index is None:
                return ""  # it is in a part of another process
            fault = f"the loss of {' and '.join(by_part[index])} is not a finite number"
            where, ids = "micro-batch", ids[index * self._microbatch :]
        first_ids = ", ".join(map(str, ids[:8]))
        return fault + f", in a {where} that begins with examples {first_ids}" * bool(ids)


def _seed_draws(device: torch.device, seed: int) -> None:
    if device.type == "cpu":  # torch.manual_seed also queues the seed for GPUs, for 0.1 ms
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)
