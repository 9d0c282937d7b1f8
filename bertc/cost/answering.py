"""Prediction of the time and memory of answering texts, from the operations of a forward pass."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from bertc.base.cores import available_cores
from bertc.cost.execution import FP32, Execution
from bertc.cost.machines.devices import this_cpu
from bertc.cost.rules import cost
from bertc.cost.spent import Spent, forward_spent
from bertc.ir import operation as op
from bertc.ir.program.network import MAIN
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import AnyStage
from bertc.ir.terms.node import RowShape


class AnswerCost(NamedTuple):
    """Seconds of a batch of rows, and bytes of memory."""

    seconds: float
    memory_bytes: int


def answer_cost(
    resolved: Resolved,
    tokens: int,
    rows: int = 1,
    *,
    threads: int = 0,
    precision: Literal["fp32", "bf16"] = "fp32",
) -> AnswerCost:
    """Predict what answering ``rows`` texts of ``tokens`` tokens takes on this CPU, by torch.

    It is the forward pass of the last stage's network and the heads of its tasks, on ``threads``
    threads (0: all cores). The rates are those that ``bertc calibrate`` measured, if it did.
    """
    stage = resolved.stages[-1]
    device = this_cpu(threads=threads or available_cores())
    how = Execution("cpu", precision, compiled=False)
    passed = list(_operations(stage, rows, tokens))
    spent = sum((forward_spent(operation, how, device) for operation in passed), Spent())
    width = FP32 if precision == "fp32" else how.value_bytes
    return AnswerCost(spent.seconds, _memory(stage, passed, rows * tokens, how, width))


def _operations(stage: AnyStage, rows: int, tokens: int) -> Iterator[op.Operation]:
    """The operations of the main network and the heads of tasks."""
    body, tasks = stage.network(MAIN).body, stage.tasks
    of_first = tasks and all(task.pooled for task in tasks) and not body.pooled.of_rows
    call = op.Call(
        rows=rows,
        tokens=tokens,
        queries=1 if of_first else tokens,
        pooled=1 if body.pooler else 0,
        causal=body.causal,
    )
    yield from body.operations(call).operations()
    for task in tasks:
        yield from task.operations(body, RowShape(seq=tokens), rows)


def _memory(
    stage: AnyStage, passed: Sequence[op.Operation], tokens: int, how: Execution, width: int
) -> int:
    """Bytes of the weights, of the operation that reads the most, and of the output states."""
    body = stage.network(MAIN).body
    heads = {
        w.name: w.numel
        for task in stage.tasks
        for w in task.head_node.weights(task.head_name, body)
    }
    weights = sum(weight.numel for weight in body.weights()) + sum(heads.values())
    states = tokens * body.hidden * how.value_bytes
    return weights * width + max(cost(operation, how).kept for operation in passed) + states
