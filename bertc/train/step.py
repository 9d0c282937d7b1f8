"""One optimiser step: corrupt, forward and backward in micro-batches, clip, update.

Axes: b batch, s sequence; t terms of the objective.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import torch
from torch import Tensor

from bertc.diagnostics import DataError
from bertc.ir.address import key
from bertc.ir.encoder import Encoder
from bertc.ir.objective import Mlm, Nsp, Sbo, Sop
from bertc.ir.objective import Objective as IrObjective
from bertc.ir.resolved import Stage
from bertc.nn import Model
from bertc.objectives import Columns, Inputs, Tables, losses
from bertc.train.feed import Batch, corruption
from bertc.train.optimizers import Rule, clip, gradient_norm

SHOWN_EXAMPLES = 8

Objective = Callable[[Columns, Tensor], tuple[Tensor, Tensor]]
"""Columns of a micro-batch and factors (t,) to the loss and, detached, sums and hits (2, t)."""


@dataclass(frozen=True)
class StepResult:
    """What an update was made of: losses in nats, each a mean over the whole batch."""

    loss: float
    losses: dict[str, float]
    grad_norm: float


def kinds(stage: Stage) -> tuple[str, ...]:
    """The names of the terms, in their order."""
    return tuple(term.objective.kind for term in stage.objective)


def term_weights(stage: Stage) -> tuple[float, ...]:
    """The factors of the terms, in their order."""
    return tuple(term.weight for term in stage.objective)


def make_objective(model: Model, stage: Stage, encoder: Encoder, compiled: bool) -> Objective:
    """Forward pass and losses of one micro-batch, as one function of static shapes."""
    names = kinds(stage)
    pooled_terms = any(isinstance(term.objective, Nsp | Sop) for term in stage.objective)

    def objective(columns: Columns, factors_t: Tensor) -> tuple[Tensor, Tensor]:
        hidden_bsh = model.encode(columns.token_ids, columns.segment_ids, columns.attention_mask)
        pooled_bh = model.pool(hidden_bsh) if pooled_terms else None
        terms = losses(stage, encoder, columns, hidden_bsh, pooled_bh, model.head_weights())
        sums_t = torch.stack([terms[name].sum.float() for name in names])
        hits_t = torch.stack([terms[name].correct.float() for name in names])
        return (sums_t * factors_t).sum(), torch.stack([sums_t.detach(), hits_t])

    if not compiled:
        return objective
    return torch.compile(objective, fullgraph=True, dynamic=False)


def counts(stage: Stage, parts: Sequence[Columns]) -> Tensor:
    """The predictions of each term (t,) in all parts of a batch, known before any loss is."""
    return torch.stack([_count(term.objective, parts) for term in stage.objective])


def divisors(stage: Stage, counts_t: Tensor) -> Tensor:
    """What the summed losses of a whole batch are divided by (t,); never 0."""
    # Python numbers go to the device with the kernels; tensors made here would have to be copied.
    extra = (isinstance(t.objective, Sbo) and t.objective.extra_pair for t in stage.objective)
    return torch.stack([n + e for n, e in zip(counts_t, extra, strict=True)]).clamp(min=1)


def _count(objective: IrObjective, parts: Sequence[Columns]) -> Tensor:
    match objective:
        case Mlm():
            return torch.stack([part.mlm.weights.sum() for part in parts if part.mlm]).sum()
        case Sbo():
            return torch.stack([part.sbo.weights.sum() for part in parts if part.sbo]).sum()
        case Nsp() | Sop():
            rows = sum(len(part.pair_labels) for part in parts)
            return torch.full((), float(rows), device=parts[0].pair_labels.device)
        case unreachable:
            assert_never(unreachable)


class TrainStep:
    """The step of one stage. Weights, moments and gradients are fp32 whatever the arithmetic."""

    def __init__(
        self,
        model: Model,
        stage: Stage,
        tables: Tables,
        rule: Rule,
        objective: Objective,
        microbatch: int,
        seed: int,
    ) -> None:
        self._model, self._stage, self._tables = model, stage, tables
        self._rule, self._objective = rule, objective
        self._microbatch, self._seed = microbatch, seed
        self.corrupt = corruption(stage, tables, seed, microbatch)
        """What makes of inputs the columns that a step reads."""
        self._parameters: Mapping[str, Tensor] = dict(model.named_parameters())

    def __call__(self, batch: Batch, step: int, rate: float) -> StepResult:
        """Update the weights by the batch of step ``step``, counted from the start of the run.

        Raises:
            DataError: if a loss or the gradient is not finite; the weights are as before.
        """
        stage, names = self._stage, kinds(self._stage)
        sums, divisors_t = self._gradients(batch.columns, step)
        norm = gradient_norm(self._parameters)
        # The one wait for the device in a step: nothing may move the weights before this is known.
        *flat, grad_norm = torch.cat([*sums, divisors_t, norm[None]]).tolist()
        rows = [flat[i : i + len(names)] for i in range(0, len(flat), len(names))]
        *parts, divided_by = rows
        self._refuse_non_finite(parts, grad_norm, step, batch.inputs)

        clip(self._parameters, grad_norm, stage.optimizer.clip)
        self._rule.update(rate)

        means = {
            name: math.fsum(part[t] for part in parts) / divided_by[t]
            for t, name in enumerate(names)
        }
        weights = dict(zip(names, term_weights(stage), strict=True))
        total = math.fsum(weights[name] * value for name, value in means.items())
        return StepResult(total, means, grad_norm)

    def rehearse(self, inputs: Inputs, microbatch: int) -> None:
        """Forward and backward of one micro-batch, to compile them or to see whether they fit."""
        first = Inputs(*(tensor[:microbatch] for tensor in inputs))
        self._gradients(corruption(self._stage, self._tables, self._seed, microbatch)(first), 0)
        self._drop_gradients()

    def _gradients(self, columns: list[Columns], step: int) -> tuple[list[Tensor], Tensor]:
        """Leave the gradient of a whole batch in the weights; sums (t,) a part, divisors (t,)."""
        self._drop_gradients()
        # Each term is a mean over the predictions of the whole batch, so counts come first.
        divisors_t = divisors(self._stage, counts(self._stage, columns))
        weights = term_weights(self._stage)
        factors_t = torch.stack([w / n for w, n in zip(weights, divisors_t, strict=True)])
        sums = []
        for index, part in enumerate(columns):
            torch.manual_seed(key(self._seed, "dropout", step, index))
            loss, statistics = self._objective(part, factors_t)
            loss.backward()  # type: ignore[no-untyped-call]
            sums.append(statistics[0])
        return sums, divisors_t

    def _drop_gradients(self) -> None:
        for parameter in self._parameters.values():
            parameter.grad = None

    def _refuse_non_finite(
        self, parts: list[list[float]], grad_norm: float, step: int, inputs: Inputs
    ) -> None:
        names = kinds(self._stage)
        for index, part in enumerate(parts):
            bad = [
                name for name, value in zip(names, part, strict=True) if not math.isfinite(value)
            ]
            if bad:
                first = index * self._microbatch
                examples = inputs.example_ids[first : first + SHOWN_EXAMPLES].tolist()
                raise DataError(
                    f"step {step}: the loss of {' and '.join(bad)} is not a finite number, in a "
                    f"micro-batch that begins with examples {', '.join(map(str, examples))}; "
                    "the weights were left as they were",
                    help=_CALMER,
                )
        if not math.isfinite(grad_norm):
            examples = inputs.example_ids[:SHOWN_EXAMPLES].tolist()
            raise DataError(
                f"step {step}: the gradient of {' + '.join(names)} is not finite though the loss "
                f"is, in a batch that begins with examples {', '.join(map(str, examples))}; "
                "the weights were left as they were",
                help=_CALMER,
            )


_CALMER = (
    "a lower learning rate, a longer warm-up or precision=fp32, in a new run; "
    "checkpoints up to here are good"
)
