"""Prediction of the time and memory of answering texts, from the operations of a forward pass."""

from collections.abc import Iterator

from bertc.cost.execution import FP32, Execution
from bertc.cost.machines.devices import this_cpu
from bertc.cost.rules import cost
from bertc.cost.spent import Spent, forward_spent
from bertc.ir import operation as op
from bertc.ir.program.network import MAIN
from bertc.ir.program.stage import AnyStage
from bertc.ir.terms.node import RowShape
from bertc.lab.latency.cases import Case, Setup, Shape
from bertc.lab.latency.table import Figures

TOKENS_OF_A_TEXT = 128
"""Length of the text that stands for all where none is given, as in ``bertc bench --latency``."""


def predicted(stage: AnyStage, case: Case) -> Figures | None:
    """Time and memory of a case on this CPU; None for other runtimes than torch.

    The rates are those of torch's operations, as measured by ``bertc calibrate``.
    """
    precision = case.setup.precision
    if case.setup.runtime != "torch" or precision == "int8":
        return None
    device = this_cpu(threads=case.setup.threads)
    how = Execution("cpu", precision, compiled=False)
    passed = list(_operations(stage, case.shape))
    spent = sum((forward_spent(each, how, device) for each in passed), Spent())
    return Figures(
        seconds=spent.seconds, slowest=None, memory_bytes=_memory(stage, passed, case, how)
    )


def text_seconds(stage: AnyStage, shape: Shape, threads: int) -> float:
    """Predicted time of a text on this CPU, by torch in fp32."""
    figures = predicted(stage, Case(Setup(stage.name, "torch", "fp32", threads), shape))
    assert figures is not None, "torch's time in fp32 is predicted"
    return figures.seconds / shape.batch


def _operations(stage: AnyStage, shape: Shape) -> Iterator[op.Operation]:
    """The operations of the main network and the heads of tasks."""
    body, tasks = stage.network(MAIN).body, stage.tasks
    of_first = tasks and all(task.pooled for task in tasks) and not body.pools_rows
    call = op.Call(
        rows=shape.batch,
        tokens=shape.length,
        queries=1 if of_first else shape.length,
        pooled=1 if body.pooler else 0,
        causal=body.causal,
    )
    yield from body.operations(call).operations()
    for task in tasks:
        yield from task.operations(body, RowShape(seq=shape.length), shape.batch)


def _memory(stage: AnyStage, passed: list[op.Operation], case: Case, how: Execution) -> int:
    """Bytes of the weights, of the operation that reads the most, and of the output states."""
    body = stage.network(MAIN).body
    heads = {
        w.name: w.numel
        for task in stage.tasks
        for w in task.head_node.weights(task.head_name, body)
    }
    weights = sum(weight.numel for weight in body.weights()) + sum(heads.values())
    width = FP32 if case.setup.precision == "fp32" else how.value_bytes
    states = case.shape.batch * case.shape.length * body.hidden * how.value_bytes
    return weights * width + max(cost(each, how).kept for each in passed) + states
