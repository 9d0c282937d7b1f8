"""The estimate of a resolved program, and time and memory of a step by part."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from bertc.cost import figures, spent
from bertc.cost.blocks import bytes_saved
from bertc.cost.figures import FP32, Bf16, DeviceBudget, Execution
from bertc.cost.flops import executed_flops, run_flops, stage_flops
from bertc.cost.machines.device import Device
from bertc.cost.machines.devices import device_named
from bertc.cost.memory import Step, whole_step
from bertc.cost.parameters import count, state_bytes
from bertc.cost.planning.plan import Fit, Machine, compiles, largest_divisor
from bertc.cost.planning.world import ALONE, Layout, World
from bertc.cost.processes import estimate_spread, layout_on, process_fit, process_memory
from bertc.cost.table import Estimate
from bertc.ir.program import Resolved, Stage, split_rows
from bertc.ir.weight_maps.pruned import program_left


def part_costs(step: Step, microbatch: int, seconds: spent.ByPart) -> tuple[figures.PartCost, ...]:
    """Cost of each part of one planned step with ``microbatch`` examples at once."""
    saved, weights = _saves(step), _weights(step)
    total = step.parameters.total
    states = {part: FP32 * count for part, count in weights.items()}
    states["head"] = FP32 * (total + step.parameters.trained - sum(weights.values()))
    states["optimiser"] = state_bytes(step.stage, total)
    states["teacher"] = FP32 * step.parameters.frozen
    taught = ("teacher",) if "teacher" in seconds else ()
    passes = (net for net in step.passes if net.network.learned)
    layers = (layer for net in passes for layer in net.forward.layers)
    inside = dict.fromkeys(block.part for layer in layers for block in layer)
    return tuple(
        figures.PartCost(part, took.seconds, *took, states.get(part, 0), microbatch * saved[part])
        for part in ("embeddings", *inside, "head", *taught, "optimiser", "loader")
        for took in [seconds.get(part, spent.Spent())]
    )


def _saves(step: Step) -> Counter[str]:
    """Bytes saved for backward per example, by part; a recomputed layer saves only its input."""
    saved: Counter[str] = Counter()
    for net in step.passes:
        if not net.network.terms:
            continue
        saved["embeddings"] += bytes_saved(net.forward.embeddings, step.budget.execution)
        for layer, sizes in zip(net.forward.layers, net.layers, strict=True):
            for block, size in zip(layer, sizes, strict=True):
                saved[block.part] += 0 if step.recompute else size.kept
            saved[layer[0].part] += net.input if step.recompute else 0
        saved["attention"] += net.mixed if step.recompute else 0
        saved["head"] += net.kept - net.body_kept + net.states
        saved["head"] += bytes_saved(net.forward.last, step.budget.execution)
    return saved


def _weights(step: Step) -> Counter[str]:
    """Weights and gradients of embeddings and layers by part; the others belong to heads."""
    by_owner = {
        (number, block.owner): (block.part, 2 * block.weights - block.frozen)
        for number, net in enumerate(step.passes)
        if net.network.learned
        for layer in net.forward.layers
        for block in layer
    }
    once = 1 if step.parameters.untrained else 2
    weights = Counter(embeddings=once * step.parameters.by_part.get("embeddings", 0))
    for part, number in by_owner.values():
        weights[part] += number
    return weights


def estimate(
    resolved: Resolved,
    device: str | Device = "h200",
    convention: figures.Convention = "exact",
    devices: int = 1,
    lengths: Sequence[int] | None = None,
    memory_bytes: float = math.inf,
) -> Estimate:
    """Cost of a program on a device, without running it or importing torch.

    ``devices``, of ``memory_bytes`` at most, are in machines of up to eight; memory is that of the
    one with the most, of full rows. ``lengths``: mean tokens of a row, for FLOPs and time. A run by
    the clock has the steps that there is time for.
    """
    if most := resolved.run.most_seconds:
        how = (device, convention, devices, lengths, memory_bytes)
        a_step = estimate(resolved.of_steps(1), *how).time.seconds_per_step
        steps = max(1, int(most / a_step))
        timed = estimate(resolved.of_steps(steps), *how)
        return replace(timed, fingerprint=resolved.fingerprint())
    world = World(devices, largest_divisor(devices, 8))
    target = device if isinstance(device, Device) else device_named(device, world.per_host)
    target = replace(target, memory_bytes=int(min(target.memory_bytes, memory_bytes)))
    layout = layout_on(resolved, target.memory_bytes, world)
    machine = Machine(
        target.kind, target.name, target.memory_bytes, target.bf16_flops > 0, int(target.cores),
        target.loops_bf16,
    )  # fmt: skip
    budget = _budget(resolved, machine, layout)
    lengths = lengths or [stage.seq for stage in resolved.stages]
    counts = [count(stage, resolved.terms()) for stage in resolved.stages]
    stages = tuple(
        _stage(stage, counted, target, budget, layout, convention, length)
        for stage, counted, length in zip(resolved.stages, counts, lengths, strict=True)
    )
    left = None
    if smaller := program_left(resolved):
        cut = estimate(smaller, target, convention, devices, lengths)
        left = figures.Left(cut.parameters.total, cut.stages[-1].flops.forward_per_example)
    return Estimate(
        name=resolved.name, fingerprint=resolved.fingerprint(), parameters=counts[-1],
        flops=run_flops(resolved.stages, [stage.flops for stage in stages]),
        memory=max((stage.memory for stage in stages), key=lambda memory: memory.peak_bytes),
        time=spent.run_time(resolved.stages, [stage.time for stage in stages], target),
        stages=stages, spread=_mean(resolved, stages), left=left,
    )  # fmt: skip


def _mean(resolved: Resolved, stages: Sequence[figures.StageEstimate]) -> figures.Spread | None:
    """The devices, with the messages of the mean step; None for one device."""
    spreads = [(stage.steps / resolved.steps, stage.spread) for stage in stages if stage.spread]
    if not spreads:
        return None
    return spreads[0][1]._replace(
        communication_seconds=sum(part * spread.communication_seconds for part, spread in spreads),
        exposed_seconds=sum(part * spread.exposed_seconds for part, spread in spreads),
    )


def largest_microbatches(
    resolved: Resolved, machine: Machine, layout: Layout = ALONE
) -> tuple[Fit, ...]:
    """Largest micro-batch that fits on a machine, in examples, per stage; 0 if none fits."""
    begun = _budget(resolved, machine, layout)._replace(begun=True)
    return tuple(
        process_fit(stage, count(stage, resolved.terms()), begun, layout)
        for stage in resolved.stages
    )


def _budget(resolved: Resolved, machine: Machine, layout: Layout) -> DeviceBudget:
    precision, kind = resolved.run.precision, machine.device
    if precision == "auto":
        precision = "bf16" if machine.fast_bf16 else "fp32"
    slow: Bf16 = "looped" if machine.loops_bf16 else "rounded"
    bf16 = "native" if machine.fast_bf16 else slow
    how = Execution(kind, precision, compiles(resolved, kind), bf16)
    return DeviceBudget(machine.memory_bytes, how, resolved.run.recompute, layout.strategy)


def _stage(
    stage: Stage,
    counts: figures.Parameters,
    target: Device,
    budget: DeviceBudget,
    layout: Layout,
    convention: figures.Convention,
    length: int,
) -> figures.StageEstimate:
    trained, full = count(stage), stage
    memory = process_memory(full, counts, budget, layout)
    stage = stage if length == stage.seq else stage.model_copy(update={"seq": length})
    executed = executed_flops(stage, memory.microbatch)
    parts, rounds = _of_directions(stage, memory, budget, target, layout)
    update = spent.step_spent(stage, trained.trained // layout.shards, target)
    parts, seconds = spent.step_time(parts | update, target)
    planned = replace(whole_step(full, counts, budget), recompute=memory.recompute)
    spread, where = None, part_costs(planned, memory.microbatch, parts)
    if layout.world.size > 1:
        spread = estimate_spread(stage, trained, parts, rounds, budget.execution, layout, target)
        seconds += spread.exposed_seconds
        where = (*where, figures.PartCost("messages", spread.exposed_seconds, *[0] * 5))
    share = layout.world.share(stage.batch)
    mfu = executed.train * share / (seconds * target.peak_flops(budget.execution.precision))
    return figures.StageEstimate(
        name=stage.name, steps=stage.steps, batch=stage.batch, seq=full.seq, row_tokens=length,
        parameters=trained, flops=stage_flops(stage, trained, executed, convention), memory=memory,
        time=spent.time_on(target, seconds, seconds * stage.steps, mfu), where=where, spread=spread,
    )  # fmt: skip


def _of_directions(
    stage: Stage, memory: figures.Memory, budget: DeviceBudget, target: Device, layout: Layout
) -> tuple[spent.ByPart, float]:
    """Time of all micro-batches of a step, without the update, and their number."""
    parts: spent.ByPart = defaultdict(spent.Spent)
    rounds, share = 0.0, layout.world.share(stage.batch)
    for half in split_rows(stage):
        rows = layout.world.share(half.batch)
        at_once = min(memory.microbatch, rows)
        spent_once = spent.microbatch_spent(
            half, at_once * stage.rows_an_example, budget.execution, target,
            accumulating=memory.microbatch < share or half is not stage, recompute=memory.recompute,
            reads_twice=layout.world.reads_twice(stage, memory.microbatch),
        )  # fmt: skip
        rounds += rows / at_once  # the last may be cut
        for part, took in spent_once.items():
            parts[part] += took.times(rows / at_once)
    return parts, rounds
