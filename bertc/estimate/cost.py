"""The arrow from a resolved program to its estimate."""

from bertc.estimate.devices import Device, device_named
from bertc.estimate.duration import run_time, stage_time
from bertc.estimate.figures import Convention, Estimate, Parameters, StageEstimate
from bertc.estimate.flops import executed_flops, run_flops, stage_flops
from bertc.estimate.memory import Room, stage_memory
from bertc.estimate.parameters import count
from bertc.ir.encoder import Encoder
from bertc.ir.resolved import Resolved, Stage
from bertc.passes.plan import Machine


def estimate(
    resolved: Resolved, device: str = "h200", convention: Convention = "exact"
) -> Estimate:
    """What a program costs on a named device, without running or importing anything heavy.

    Raises:
        UsageError: if no device of that name is known.
    """
    target = device_named(device)
    encoder = resolved.encoder
    parameters = count(encoder, resolved.terms())
    room = Room(target.memory_bytes, target.kind, target.precision(resolved.run.precision))
    stages = tuple(
        _stage(stage, encoder, parameters, target, room, convention) for stage in resolved.stages
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


def largest_microbatches(resolved: Resolved, machine: Machine) -> tuple[int, ...]:
    """The most examples at once that fit on a machine, one number a stage; 0 if not even one."""
    encoder = resolved.encoder
    parameters = count(encoder, resolved.terms())
    precision = resolved.run.precision
    if precision == "auto":
        precision = "bf16" if machine.fast_bf16 else "fp32"
    room = Room(machine.memory_bytes, machine.device, precision)
    return tuple(
        stage_memory(stage, encoder, parameters, room).largest_microbatch
        for stage in resolved.stages
    )


def _stage(
    stage: Stage,
    encoder: Encoder,
    whole: Parameters,
    target: Device,
    room: Room,
    convention: Convention,
) -> StageEstimate:
    trained = count(encoder, stage.objective)
    executed = executed_flops(stage, encoder)
    return StageEstimate(
        name=stage.name,
        steps=stage.steps,
        batch=stage.batch,
        seq=stage.seq,
        parameters=trained,
        flops=stage_flops(stage, encoder, trained, executed, convention),
        memory=stage_memory(stage, encoder, whole, room),
        time=stage_time(stage, 3 * executed * stage.batch, target, room.precision),
    )
