"""Several processes: how the state is distributed, and memory per device."""

from typing import NamedTuple

from bertc.cost.execution import FP32, DeviceBudget
from bertc.cost.figures import Memory, Parameters
from bertc.cost.memory import USABLE, stage_fit, stage_memory
from bertc.cost.parameters import count
from bertc.cost.planning.plan import Fit
from bertc.cost.planning.world import ALONE, Layout, World, lay_out
from bertc.cost.update import state_bytes
from bertc.ir.network.body_node import unshared
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage


def layout_on(resolved: Resolved, memory_bytes: int, world: World) -> Layout:
    """Distribute weights, gradients and optimiser state over devices of ``memory_bytes``."""
    if world.size == 1:
        return ALONE
    # Networks grow.
    counts = ((stage, count(stage, resolved.terms())) for stage in resolved.stages)
    most = max(FP32 * (n.total + n.trained) + state_bytes(s, n.total) for s, n in counts)
    return lay_out(resolved, world, most, memory_bytes)


def process_memory(
    stage: Stage, parameters: Parameters, budget: DeviceBudget, layout: Layout
) -> Memory:
    """Memory of one stage in the process with the most examples."""
    share, held = _own(stage, layout), _held(stage, parameters, budget, layout)
    memory = stage_memory(share, parameters, held.wider(budget))
    return memory._replace(
        weights_bytes=held.weights,
        optimizer_bytes=held.state,
        average_bytes=memory.average_bytes // layout.shards,
        peak_bytes=memory.peak_bytes - held.spared,
    )


def process_fit(stage: Stage, parameters: Parameters, budget: DeviceBudget, layout: Layout) -> Fit:
    """The largest micro-batch of one stage in the process with the most examples."""
    held = _held(stage, parameters, budget, layout)
    return stage_fit(_own(stage, layout), parameters, held.wider(budget))


class _Held(NamedTuple):
    """Bytes of weights and optimiser state in one process, and bytes that sharding spares it."""

    weights: int
    state: int
    spared: int

    def wider(self, budget: DeviceBudget) -> DeviceBudget:
        """Add the spared bytes to the device's memory."""
        spared = int(self.spared / USABLE[budget.device])
        return budget._replace(memory_bytes=budget.memory_bytes + spared)


def _own(stage: Stage, layout: Layout) -> Stage:
    share = layout.world.share(stage.batch)
    if share == stage.batch:
        return stage
    return stage.model_copy(update={"batch": share, "microbatch": min(stage.microbatch, share)})


def _held(stage: Stage, parameters: Parameters, budget: DeviceBudget, layout: Layout) -> _Held:
    """Bytes per process; sharded, two layers and all weights outside a layer's own are gathered."""
    total = parameters.total
    state = state_bytes(stage, total)
    if not layout.sharded:
        return _Held(FP32 * total, state, 0)
    of_layers = unshared(stage.encoder)
    shared = parameters.layers - sum(of_layers)
    # Other networks are sharded too; the two gathered layers are assumed to be the main encoder's.
    outside = ("embeddings", "pooler", "head")
    inside = (count for part, count in parameters.by_part.items() if part not in outside)
    cut = sum(inside) - shared
    gathered = budget.execution.value_bytes * min(cut, 2 * max(of_layers))
    weights = FP32 * (total // layout.shards + total - cut) + gathered
    cut_state = state // layout.shards
    return _Held(weights, cut_state, FP32 * total + state - weights - cut_state)
