"""Seconds of a step by part: a walk over its operations.

An operation takes the larger of its arithmetic time and its memory time, plus its start cost. On a
CPU that adds to its time; a GPU runs while its host launches the next kernels, so a step takes the
larger of the two. Evaluation and checkpoints are excluded.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bertc.cost.figures import FP32, Execution, Time, passes_of
from bertc.cost.machines.device import LOADED_TOKENS, Device, rate_at
from bertc.cost.parameters import count_heads, update_products
from bertc.cost.rules import Cost, cost, is_fused
from bertc.ir import operation as op
from bertc.ir.learning.optimizer import MOVED
from bertc.ir.network.body import counted_weights
from bertc.ir.program import Network, Stage, heads_of

STARTS_OF_A_LOSS, STARTS_OF_A_STEP = 43, 120
"""Kernels of a network's loss (gathering states, counting hits), and of a step (masking, checks,
update)."""


class Spent(NamedTuple):
    """Seconds by cause: arithmetic, memory traffic, start costs."""

    arithmetic: float = 0.0
    memory: float = 0.0
    starts: float = 0.0

    def __add__(self, more: "Spent") -> "Spent":  # type: ignore[override]
        arithmetic, memory, starts = more
        return Spent(self.arithmetic + arithmetic, self.memory + memory, self.starts + starts)

    def times(self, count: float) -> "Spent":
        """These seconds ``count`` times."""
        return Spent(count * self.arithmetic, count * self.memory, count * self.starts)

    @property
    def seconds(self) -> float:
        """The sum of the three."""
        return self.arithmetic + self.memory + self.starts


ByPart = dict[str, Spent]


def microbatch_spent(
    stage: Stage,
    rows: int,
    how: Execution,
    device: Device,
    *,
    accumulating: bool,
    recompute: bool,
    reads_twice: bool = False,
) -> ByPart:
    """Forward and backward of ``rows`` rows in all networks, perhaps after another forward."""
    costs: ByPart = defaultdict(Spent)
    # Weights and gradients are cast, and gradients accumulated.
    cast = FP32 + how.value_bytes if how.precision == "bf16" else 0
    for network, passed in passes_of(stage, rows):
        learns = bool(network.terms)
        once: dict[int, list[tuple[Spent, Spent]]] = {}  # of layers alike
        for name, weights, operations in _parts(stage, network, passed, rows):
            part = name if network.learned else "teacher"
            times = reads_twice + (recompute and part not in ("embeddings", "head"))
            if id(operations) not in once:
                timed = ((o, _spent(o, how, device)) for o in operations)
                once[id(operations)] = [(s, _forward_alone(o, s, how)) for o, s in timed]
            for spent, again in once[id(operations)]:
                costs[part] += spent if learns else again
                if learns and times:
                    costs[part] += again.times(times)
            moved = (1 + learns) * cast + 3 * FP32 * (accumulating and learns)
            costs[part] += Spent(memory=weights * moved / device.bandwidth)
        starts = STARTS_OF_A_LOSS * device.seconds_a_start
        costs["head"] += Spent(starts=starts if learns else 0.0)
    return costs


def step_spent(stage: Stage, weights: int, device: Device) -> ByPart:
    """Update of ``weights`` weights, and preparation of the batch."""
    kind = "lamb" if stage.optimizer.by_tensor else "adam"  # as many bytes move per weight
    # An update reads and writes several arrays at once, which is quicker than a copy.
    rates = device.rates
    update = 1 / rates.optimizers[kind] if rates else MOVED[kind] * FP32 / device.bandwidth
    update *= stage.optimizer.effort
    # Bytes for the norm of the gradient; to clip by tensor, for its norm and a product by a number.
    extra = FP32 + FP32 * sum(m.holds.moved for m in stage.methods if m.holds)
    extra += 3 * FP32 * (stage.optimizer.clip_per == "tensor")
    update = weights * (update + extra / device.bandwidth)
    spent = Spent(memory=update, starts=STARTS_OF_A_STEP * device.seconds_a_start)
    is_bf16 = device.kind != "cpu" or device.bf16_flops
    how = Execution(device.kind, "bf16" if is_bf16 else "fp32", compiled=False)
    for product, times in update_products(stage):
        forward = _forward_alone(product, _spent(product, how, device), how)
        spent += forward.times(times)
    # On a GPU a background thread prefetches, so only a CPU pays for it here.
    tokens = stage.tokens_per_step if device.kind == "cpu" else 0
    return {"optimiser": spent, "loader": Spent(arithmetic=tokens / (LOADED_TOKENS * device.cores))}


def step_time(parts: ByPart, device: Device) -> tuple[ByPart, float]:
    """Combine the parts of a step; launch time hidden behind device work costs nothing."""
    spent = sum(parts.values(), Spent())
    if device.kind == "cpu":
        return parts, spent.seconds
    working = spent.arithmetic + spent.memory
    waiting = max(0.0, spent.starts - working) / (spent.starts or 1.0)
    visible = {part: s._replace(starts=s.starts * waiting) for part, s in parts.items()}
    return visible, max(working, spent.starts)


def time_on(device: Device, per_step: float, total: float, mfu: float) -> Time:
    """Seconds on a device; ``mfu`` is the share of its peak that useful FLOPs have."""
    return Time(
        device=device.name, seconds_per_step=per_step, seconds_total=total, assumed_mfu=mfu,
        product_share=device.product_share, source=device.source, within=device.time_within,
    )  # fmt: skip


def run_time(stages: Sequence[Stage], times: Sequence[Time], device: Device) -> Time:
    """Sum of the stages' times, with the mean step and the mean share of peak."""
    total = sum(time.seconds_total for time in times)
    mfu = sum(time.assumed_mfu * time.seconds_total for time in times) / total
    return time_on(device, total / sum(stage.steps for stage in stages), total, mfu)


def _parts(
    stage: Stage, network: Network, passed: op.Forward, rows: int
) -> Iterator[tuple[str, int, op.Operations]]:
    """Parts of a network: name, number of weights cast per use, operations."""
    encoder = network.body
    weights = (weight for weights, _, _ in counted_weights(encoder) for weight in weights)
    narrow = sum(w.numel for w in weights if (w.part, w.role) == ("embeddings", "matrix"))
    yield "embeddings", narrow, passed.embeddings
    for layer in passed.layers:
        for block in layer:
            yield block.part, block.weights, block.operations
    heads = heads_of(stage, network, rows // stage.rows_an_example)
    tables = network.vocabulary_heads * encoder.token_head.table_elements
    yield "head", count_heads(network) + tables, (*passed.last, *heads)


def _spent(operation: op.Operation, how: Execution, device: Device) -> Spent:
    """Time of forward and backward of one operation."""
    if isinstance(operation, op.Alone):
        done = operation.operation
        return _forward_alone(done, _spent(done, how, device), how)
    costs = cost(operation, how)
    arithmetic = _arithmetic(operation, costs, how, device)
    memory = costs.moved / device.bandwidth
    starts = costs.starts * device.seconds_a_start
    if arithmetic >= memory:
        return Spent(arithmetic=arithmetic, starts=starts)
    return Spent(memory=memory, starts=starts)


def _forward_alone(operation: op.Operation, spent: Spent, how: Execution) -> Spent:
    costs = cost(operation, how)  # of no FLOPs if it is other than a matmul
    return spent.times(costs.flops / costs.train_flops if costs.train_flops else 0.4)


def _arithmetic(operation: op.Operation, costs: Cost, how: Execution, device: Device) -> float:
    rates = device.rates
    if rates is None:
        return costs.train_flops / (device.peak_flops(how.precision) * device.product_share)
    match operation:
        case op.Product(inner=one, columns=other) | op.Recurrence(width=one, rows=other):
            widths = sorted((one, other))
            return costs.train_flops / rate_at(rates.products[how.precision], *widths)
        case op.Attention():
            plain = is_fused(operation, how) and operation.mask != "scores"
            points = rates.attention[how.precision + ("" if plain else " dropout")]
            return costs.elements / rate_at(points, operation.span, operation.head_dim)
        case _ if costs.function:
            return costs.elements / rates.elements[f"{costs.function} {how.precision}"]
        case _:
            return 0.0
