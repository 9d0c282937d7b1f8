"""The arrow from a resolved program to its estimate."""

from collections.abc import Sequence
from typing import Literal

from bertc.estimate.devices import Device, device_named
from bertc.estimate.duration import run_time, stage_time
from bertc.estimate.figures import Convention, Estimate, Parameters, StageEstimate
from bertc.estimate.flops import executed_flops, run_flops, stage_flops
from bertc.estimate.memory import stage_memory
from bertc.estimate.parameters import count
from bertc.ir.encoder import Encoder
from bertc.ir.resolved import Resolved, Stage


def estimate(
    resolved: Resolved, device: str = "h200", convention: Convention = "exact"
) -> Estimate:
    """What a program costs, without running or importing anything heavy.

    Raises:
        UsageError: if no device of that name is known.
    """
    return estimate_on(resolved, device_named(device), convention)


def estimate_on(resolved: Resolved, target: Device, convention: Convention) -> Estimate:
    """As ``estimate``, on a device that need not be in the table."""
    encoder = resolved.encoder
    parameters = count(encoder, resolved.terms())
    precision = target.precision(resolved.run.precision)
    stages = tuple(
        _stage(stage, encoder, parameters, target, convention, precision)
        for stage in resolved.stages
    )
    return Estimate(
        name=resolved.name,
        fingerprint=resolved.fingerprint(),
        parameters=parameters,
        flops=run_flops(resolved.stages, [stage.flops for stage in stages]),
        memory=max((stage.memory for stage in stages), key=lambda memory: memory.peak_bytes),
        time=run_time(resolved.stages, [stage.time for stage in stages]),
        stages=stages,
    )


def largest_microbatches(
    resolved: Resolved, target: Device, precision: Literal["fp32", "bf16"]
) -> Sequence[int]:
    """The most examples at once that fit on a device, one number a stage; 0 if not even one."""
    encoder = resolved.encoder
    parameters = count(encoder, resolved.terms())
    return [
        stage_memory(stage, encoder, parameters, target, precision).largest_microbatch
        for stage in resolved.stages
    ]


def _stage(
    stage: Stage,
    encoder: Encoder,
    whole: Parameters,
    target: Device,
    convention: Convention,
    precision: Literal["fp32", "bf16"],
) -> StageEstimate:
    trained = count(encoder, stage.objective)
    step_flops = 3 * executed_flops(stage, encoder) * stage.batch
    return StageEstimate(
        name=stage.name,
        steps=stage.steps,
        batch=stage.batch,
        seq=stage.seq,
        parameters=trained,
        flops=stage_flops(stage, encoder, trained, convention),
        memory=stage_memory(stage, encoder, whole, target, precision),
        time=stage_time(stage, step_flops, target, precision),
    )
