"""FLOPs of a stage and of a run, in each convention.

That of ELECTRA's published counter (google-research/electra, flops_computation.py): a multiply-add
is 2; backward costs as much as forward; the token lookup is a dense product with a one-hot vector;
elementwise work counts per element as below; the vocabulary head runs on 80 of 512 positions and
the head that finds replaced tokens on all. Other objectives are not counted, and every encoder has
two token types.
"""

import math
from collections.abc import Mapping, Sequence
from operator import mul
from typing import NamedTuple, assert_never

from bertc.cost.figures import ANY, Convention, Flops, Parameters, passes_of
from bertc.cost.parameters import update_products
from bertc.cost.rules import cost
from bertc.ir import operation as op
from bertc.ir.network.body import Body
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.layer import LayerWidths
from bertc.ir.program import Network, Resolved, Stage, TaskStage, split_rows
from bertc.ir.program.passing import find_frozen_part, heads_of


class Executed(NamedTuple):
    """Matmul FLOPs per example; ``frozen`` is a part of those of forward."""

    forward: int
    train: int
    frozen: int


def stage_flops(
    stage: Stage, parameters: Parameters, executed: Executed, convention: Convention
) -> Flops:
    """FLOPs of one stage in one convention; ``parameters`` counts the weights that it trains."""
    update = 0
    match convention:
        case "exact":
            forward, train, frozen = executed
            update = _update_flops(stage)
        case "electra":
            costs = [
                (network, network_flops(network, stage.seq) * direction.batch)
                for direction in split_rows(stage)
                for network in direction.networks()
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
        convention=flops[0].convention, forward_per_example=_mean(forward, sum(read)),
        frozen_per_example=_mean(frozen, sum(read)),
        train_per_example=_mean(total - updates, sum(read)),
        update_per_step=_mean(updates, sum(steps)), train_per_step=_mean(total, sum(steps)),
        train_total=total,
    )  # fmt: skip


def executed_flops(stage: Stage, examples: int) -> Executed:
    """Matmul FLOPs per example, as ``model`` and the objectives run them on ``examples`` at once.

    Of rows in several directions, the mean.
    """
    if len(split_rows(stage)) > 1:
        parts = [(part.batch, executed_flops(part, examples)) for part in split_rows(stage)]
        sums = (sum(rows * flops[n] for rows, flops in parts) for n in range(3))
        return Executed(*(_mean(flops, stage.batch) for flops in sums))
    total = train = frozen = 0
    for network, passed in passes_of(stage, examples * stage.rows_an_example):
        heads = heads_of(stage, network, examples)
        around, around_train = _flops((*passed.embeddings, *passed.last, *heads))
        blocks = [block.operations for layer in passed.layers for block in layer]
        once = {id(operations): _flops(operations) for operations in blocks}  # of layers alike
        inside = sum(once[id(operations)][0] for operations in blocks)
        total += around + inside
        if network.terms:
            train += around_train + sum(once[id(operations)][1] for operations in blocks)
        else:
            train += around + inside
        if not network.learned:
            frozen += around + inside
        elif find_frozen_part(stage).whole:
            frozen += _flops(passed.embeddings)[0] + inside
    return Executed(*(_mean(flops, examples) for flops in (total, train, frozen)))


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


DROPOUT, LAYER_NORM, ACTIVATION, SOFTMAX = 4, 5, 8, 5
"""FLOPs per element, as ELECTRA's counter has them."""


def network_flops(network: Network, seq: int) -> int:
    """Forward pass of a network and of its heads over one example.

    The counter knows transformers alone: of the layers of another body the products are counted.
    """
    body, forward = network.body, body_flops(network.body, seq)
    objectives = [term.objective for term in network.terms]
    guesses = (t.masks or (t.replaces and t.fills != "replaced") for t in objectives)
    if not objectives or any(guesses):
        inner = 2 * body.hidden + 1 + ACTIVATION + LAYER_NORM
        score = 2 * body.embedding + SOFTMAX + 2
        head = inner * body.embedding + score * body.vocab_size
        forward += seq * 80 * head // 512
    if any(t.fills == "replaced" for t in objectives):
        forward += binary_head_flops(body, seq)
    return forward


def body_flops(body: Body, seq: int) -> int:
    """Forward pass of embeddings and layers over one example."""
    if not isinstance(body, Encoder):
        passed = body.operations(op.Call(rows=1, tokens=seq, queries=seq))
        return sum(cost(operation, ANY).flops for operation in passed.operations())
    hidden, embedding = body.hidden, body.embedding
    lookup = 2 * embedding * body.vocab_size + 2 * embedding * (seq + 2)  # of two token types
    after = 2 * embedding + (LAYER_NORM + DROPOUT) * embedding
    project = 2 * hidden * embedding + hidden if embedding != hidden else 0
    layers = sum(_layer(body, widths, seq) for widths in body.layers)
    return seq * (lookup + after + project + layers)


def binary_head_flops(encoder: Body, seq: int) -> int:
    """Forward pass of a two-class head on every token, and of classification."""
    hidden = encoder.hidden
    return seq * (2 * hidden * hidden + hidden + ACTIVATION * hidden + 2 * hidden)


def _layer(encoder: Encoder, widths: LayerWidths, seq: int) -> int:
    """Forward FLOPs per token."""
    hidden, inner, heads = encoder.hidden, widths.ffn, widths.heads
    width = heads * widths.head_dim
    attention = (
        3 * (2 * hidden * width + width)  # queries, keys, values
        + 2 * width * seq  # scores
        + (1 + SOFTMAX + DROPOUT) * seq * heads  # their scale, softmax and dropout
        + 2 * width * seq  # weighted average
        + 2 * width * hidden + hidden  # output map
        + (DROPOUT + 1) * hidden  # dropout and residual
        + LAYER_NORM  # as published: the factor ``hidden`` is missing here, and only here
    )  # fmt: skip
    ffn = (
        2 * hidden * inner + inner + ACTIVATION * inner
        + 2 * inner * hidden + hidden
        + (DROPOUT + 1 + LAYER_NORM) * hidden
    )  # fmt: skip
    return attention + ffn
