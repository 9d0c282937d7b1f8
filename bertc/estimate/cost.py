"""The arrow from a resolved program to its estimate."""

from bertc.estimate.devices import Device, device_named
from bertc.estimate.duration import Work, run_time, stage_time
from bertc.estimate.figures import Convention, Estimate, Parameters, StageEstimate
from bertc.estimate.flops import executed_flops, layer_flops, run_flops, stage_flops
from bertc.estimate.memory import stage_fit, stage_memory, whole_step
from bertc.estimate.moments import Room
from bertc.estimate.parameters import count
from bertc.ir.encoder import Encoder
from bertc.ir.resolved import Resolved, Stage
from bertc.passes.plan import Fit, Machine, compiles


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
    room = Room(
        target.memory_bytes,
        target.kind,
        target.precision(resolved.run.precision),
        compiles(resolved, target.kind),
        resolved.run.recompute,
    )
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


def largest_microbatches(resolved: Resolved, machine: Machine) -> tuple[Fit, ...]:
    """The most examples at once that fit on a machine, one entry a stage; 0 if not even one."""
    encoder = resolved.encoder
    parameters = count(encoder, resolved.terms())
    precision = resolved.run.precision
    if precision == "auto":
        precision = "bf16" if machine.fast_bf16 else "fp32"
    compiled = compiles(resolved, machine.device)
    room = Room(machine.memory_bytes, machine.device, precision, compiled, resolved.run.recompute)
    return tuple(stage_fit(stage, encoder, parameters, room) for stage in resolved.stages)


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
    memory = stage_memory(stage, encoder, whole, room)
    applied = -(-stage.batch // memory.microbatch) * whole.applied
    work = Work(
        flops=3 * executed * stage.batch,
        recomputed_flops=layer_flops(stage, encoder) * stage.batch if memory.recompute else 0,
        kept_bytes=whole_step(stage, encoder, whole, room).kept * stage.batch,
        weights=applied + trained.total,
    )
    return StageEstimate(
        name=stage.name,
        steps=stage.steps,
        batch=stage.batch,
        seq=stage.seq,
        parameters=trained,
        flops=stage_flops(stage, encoder, trained, executed, convention),
        memory=memory,
        time=stage_time(stage, work, target, room.precision),
    )
