"""Memory of a training step: its parts, its peak, and the micro-batch that fits on a device."""

from dataclasses import replace
from functools import partial

from bertc.cost.blocks import MemoryPoint
from bertc.cost.execution import FP32, DeviceBudget
from bertc.cost.figures import Memory, Parameters
from bertc.cost.memory_points import Step
from bertc.cost.planning.plan import Fit, choose_fit, largest_divisor
from bertc.cost.update import methods_bytes, state_bytes
from bertc.ir.program.reading import by_direction
from bertc.ir.program.stage import Stage

CONTEXT_BYTES, NCCL_BYTES = 2**29, 2**30
"""CUDA's context (kernels and stacks), and NCCL's buffers, per process outside torch's allocator.

Read from the sources of torch 2.13, not measured on a device (docs/estimates.md)."""
USABLE = {"cpu": 0.7, "cuda": 0.95}
"""Share of device memory that a step may use.

GPU: the rest is for fragmentation of the allocator. CPU: the C library holds on to freed blocks, up
to 0.3 of what a step needs (docs/measured.md)."""


def stage_memory(stage: Stage, parameters: Parameters, budget: DeviceBudget) -> Memory:
    """Memory of one stage; ``parameters`` counts the whole run's weights."""
    undivided = whole_step(stage, parameters, budget)
    fit = _fit(undivided)
    microbatch = stage.microbatch or largest_divisor(stage.batch, fit.examples)
    accumulating = undivided.accumulating or microbatch < stage.batch
    step = undivided
    if (accumulating, fit.recompute) != (step.accumulating, step.recompute):
        step = replace(step, accumulating=accumulating, recompute=fit.recompute)
    *others, most = by_direction(stage)
    parts = [(step, min(microbatch, most.batch))]
    for one in others:  # they come first, so that there are no gradients yet to add to
        masked, rows = one.model_copy(update={"batch": stage.batch}), min(microbatch, one.batch)
        again = budget.strategy == "ddp" or microbatch < one.batch
        parts.append((replace(step, stage=masked, accumulating=again), rows))
    return Memory(
        weights_bytes=parameters.total * FP32, gradients_bytes=parameters.trained * FP32,
        optimizer_bytes=state_bytes(stage, parameters.total),
        average_bytes=methods_bytes(stage, parameters.total),
        activations_bytes=max(rows * part.kept for part, rows in parts),
        peak_bytes=max(point.at(rows) for part, rows in parts for point in part.points),
        microbatch=microbatch, largest_microbatch=fit.examples, recompute=fit.recompute,
    )  # fmt: skip


def stage_fit(stage: Stage, parameters: Parameters, budget: DeviceBudget) -> Fit:
    """The largest micro-batch that fits, and whether that takes recomputing the layers."""
    return _fit(whole_step(stage, parameters, budget))


def whole_step(stage: Stage, parameters: Parameters, budget: DeviceBudget) -> Step:
    """The step with its batch as one micro-batch, nothing recomputed; DDP accumulates.

    Rows that are read causally take more than others, since all their states are scored.
    """
    *others, most = by_direction(stage)
    accumulating = budget.strategy == "ddp" or bool(others)
    most = most.model_copy(update={"batch": stage.batch}) if others else stage
    return Step(most, parameters, budget, accumulating, recompute=False)


def _fit(step: Step) -> Fit:
    setting, device = step.budget.recompute, step.budget.device
    recomputed = partial(_most, replace(step, recompute=True))
    return choose_fit(step.stage, setting, device, _most(step), recomputed)


def _most(step: Step) -> int:
    """The largest micro-batch that fits, in examples; 0 if none does."""
    budget = step.budget
    available = budget.memory_bytes
    if budget.device == "cuda":
        available -= CONTEXT_BYTES * (not budget.begun)
        available -= NCCL_BYTES * (budget.strategy != "single")
    usable = int(available * USABLE[budget.device])
    largest = _below(step.points, usable)
    if (step.stage.microbatch or largest) >= step.stage.batch:
        return largest
    return _below(replace(step, accumulating=True).points, usable)


def _below(points: tuple[MemoryPoint, ...], usable: int) -> int:
    """The largest micro-batch for which every memory point fits; constant points must fit too."""
    if any(point.fixed > usable for point in points):
        return 0
    return min((usable - p.fixed) // p.per_example for p in points if p.per_example)
