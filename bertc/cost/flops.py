"""FLOPs of a stage and of a run, in each convention."""

import math
from collections.abc import Mapping, Sequence
from operator import mul
from typing import NamedTuple, assert_never

from bertc.cost import electra
from bertc.cost.execution import ANY, networks_of, passes_of
from bertc.cost.figures import Convention, Flops, Parameters
from bertc.cost.rules import cost
from bertc.cost.update import update_products
from bertc.ir import operation as op
from bertc.ir.program.passing import freezes_all, heads_of
from bertc.ir.program.reading import by_direction
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage, TaskStage


class Executed(NamedTuple):
    """Matmul FLOPs per example; ``layers`` is one more forward of them, ``frozen`` a part."""

    forward: int
    train: int
    layers: int
    frozen: int


def stage_flops(
    stage: Stage, parameters: Parameters, executed: Executed, convention: Convention
) -> Flops:
    """FLOPs of one stage in one convention; ``parameters`` counts the weights that it trains."""
    update = 0
    match convention:
        case "exact":
            forward, train, _, frozen = executed
            update = _update_flops(stage)
        case "electra":
            costs = [
                (network, electra.network_flops(network, stage.seq) * one.batch)
                for one in by_direction(stage)
                for network in networks_of(one)
            ]
            forward = sum(cost for _, cost in costs) // stage.batch
            train = sum(cost * (2 if n.terms else 1) for n, cost in costs) // stage.batch
            frozen = sum(cost for n, cost in costs if not n.learned) // stage.batch
        case "6n":
            # Kaplan et al. 2020, 2.1: weights outside the embedding tables, 2 forward 4 backward.
            # A shared weight works once for every layer that applies it.
            tables = parameters.by_part.get("embeddings", 0)
            forward, frozen = 2 * stage.seq * (parameters.applied - tables), 0
            train = 3 * forward
        case _:
            assert_never(convention)
    return Flops(
        convention=convention, forward_per_example=forward, frozen_per_example=frozen,
        train_per_example=train, update_per_step=update,
        train_per_step=train * stage.batch + update,
        train_total=(train * stage.batch + update) * stage.steps,
    )  # fmt: skip


def run_flops(stages: Sequence[Stage], flops: Sequence[Flops]) -> Flops:
    """Sum over stages, with the mean example and the mean step."""
    steps = [stage.steps for stage in stages]
    read = [stage.steps * stage.batch for stage in stages]
    total = sum(cost.train_total for cost in flops)
    updates = sum(map(mul, steps, (cost.update_per_step for cost in flops)))
    forward = sum(map(mul, read, (cost.forward_per_example for cost in flops)))
    frozen = sum(map(mul, read, (cost.frozen_per_example for cost in flops)))
    return Flops(
        convention=flops[0].convention,
        forward_per_example=_mean(forward, sum(read)),
        frozen_per_example=_mean(frozen, sum(read)),
        train_per_example=_mean(total - updates, sum(read)),
        update_per_step=_mean(updates, sum(steps)),
        train_per_step=_mean(total, sum(steps)),
        train_total=total,
    )


def executed_flops(stage: Stage, examples: int) -> Executed:
    """Matmul FLOPs per example, as ``model`` and the objectives run them on ``examples`` at once.

    Of rows in several directions, the mean.
    """
    if len(by_direction(stage)) > 1:
        parts = [(one.batch, executed_flops(one, examples)) for one in by_direction(stage)]
        sums = (sum(rows * flops[n] for rows, flops in parts) for n in range(4))
        return Executed(*(_mean(flops, stage.batch) for flops in sums))
    total = train = layers = frozen = 0
    for network, passed in passes_of(stage, examples * stage.rows_an_example):
        heads = heads_of(stage, network, examples)
        around, around_train = _flops((*passed.embeddings, *passed.last, *heads))
        blocks = [block.operations for layer in passed.layers for block in layer]
        once = {id(operations): _flops(operations) for operations in blocks}  # of layers alike
        inside = sum(once[id(operations)][0] for operations in blocks)
        total += around + inside
        if network.terms:
            train += around_train + sum(once[id(operations)][1] for operations in blocks)
            layers += inside
        else:
            train += around + inside
        if not network.learned:
            frozen += around + inside
        elif freezes_all(stage):
            frozen += _flops(passed.embeddings)[0] + inside
    return Executed(*(_mean(flops, examples) for flops in (total, train, layers, frozen)))


def _flops(operations: op.Operations) -> tuple[int, int]:
    """FLOPs of forward, and of forward and backward."""
    costs = [cost(operation, ANY) for operation in operations]
    return sum(c.flops for c in costs), sum(c.train_flops for c in costs)


def _mean(total: int, count: int) -> int:
    """Nearest integer to the mean, without rounding through a float."""
    return (2 * total + count) // (2 * count)


def step_flops(resolved: Resolved, tokens: Mapping[int, int]) -> tuple[int, ...]:
    """FLOPs of a training step of each stage, with those of the update.

    ``tokens`` are those read until some steps. Rows of a task are as long on average as those that
    were read, with what fills the shorter ones of a batch; others are full, as in estimates.
    """
    return tuple(
        stage.batch * executed_flops(short, stage.batch).train + _update_flops(stage)
        for stage in resolved.stages
        for short in [stage.model_copy(update={"seq": _row_tokens(stage, tokens)})]
    )


def _update_flops(stage: Stage) -> int:
    return sum(times * cost(product, ANY).flops for product, times in update_products(stage))


def _row_tokens(stage: Stage, tokens: Mapping[int, int]) -> int:
    reached = [step for step in tokens if 0 < step - stage.first_step <= stage.steps]
    if not isinstance(stage, TaskStage) or not reached:
        return stage.seq
    rows = (max(reached) - stage.first_step) * stage.batch * stage.rows_an_example
    read = tokens[max(reached)] - tokens.get(stage.first_step, 0)
    return max(1, min(stage.seq, math.ceil(read / rows)))
