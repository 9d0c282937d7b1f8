"""Prediction of the time and memory of answering texts, from the operations of a forward pass."""

from typing import Literal, NamedTuple

from bertc.base.cores import available_cores
from bertc.cost.execution import FP32, Execution
from bertc.cost.machines.devices import this_cpu
from bertc.cost.rules import cost
from bertc.cost.spent import Spent, forward_spent
from bertc.ir import operation as op
from bertc.ir.program.network import MAIN
from bertc.ir.program.resolved import Resolved
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
    body, tasks = stage.network(MAIN).body, stage.tasks
    of_first = tasks and all(task.pooled for task in tasks) and not body.pooled.of_rows
    queries, pooled = 1 if of_first else tokens, 1 if body.pooler else 0
    call = op.Call(rows=rows, tokens=tokens, queries=queries, pooled=pooled, causal=body.causal)
    shape = RowShape(seq=tokens)
    heads = (operation for task in tasks for operation in task.operations(body, shape, rows))
    passed = [*body.operations(call).operations(), *heads]
    spent = sum((forward_spent(operation, how, device) for operation in passed), Spent())
    in_heads = (one for task in tasks for one in task.head_node.weights(task.head_name, body))
    weights = {one.name: one.numel for one in in_heads}
    numbers = sum(weight.numel for weight in body.weights()) + sum(weights.values())
    # The weights, what the operation that reads the most reads, and the output states.
    memory = numbers * (FP32 if precision == "fp32" else how.value_bytes)
    memory += max(cost(operation, how).kept for operation in passed)
    return AnswerCost(spent.seconds, memory + rows * tokens * body.hidden * how.value_bytes)
