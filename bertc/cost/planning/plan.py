"""The plan of a resolved program on a machine: device, precision, micro-batches, compilation."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from bertc.base.diagnostics import MachineError
from bertc.cost.figures import FP32, DeviceBudget
from bertc.cost.planning.world import ALONE, Layout, Strategy, World
from bertc.ir.base import DeviceKind
from bertc.ir.learning.optimizer import moments_of
from bertc.ir.program import Resolved, Stage, TextStage, model_weights

EFFICIENT_TOKENS: Mapping[str, int] = {"cpu": 256, "cuda": 8192}
"""Tokens in a micro-batch below which a step loses more time than recomputing layers costs, 25%.

On a CPU casting weights and adding gradients take that quarter at 512 tokens of a 256-wide encoder,
at 150 of a 768-wide one. On a GPU, not measured: the host takes about 0.5 ms for a 768-wide layer,
forward and backward, in which an H200 computes it for so many tokens (docs/estimates.md)."""
COMPILING_PAYS_FLOPS = 1e17
"""FLOPs of a fine-tuning run from which compiling pays: 10 minutes at 40% of an H100's peak.

1.7e14 FLOPs a second are assumed. Compiling takes 0.5 to 1.5 minutes and saves about a fifth of the
rest; not measured."""
_SUMS: Mapping[str, str] = {
    "no": "deterministic=no: fast kernels add in any order, so runs agree to rounding, not to the "
    "bit",
    "yes": "deterministic=yes: every sum has one order, so runs agree to the bit; slower",
}


@dataclass(frozen=True)
class Machine:
    """The facts about a machine that decide a plan.

    ``memory_bytes`` is the device's, on a CPU the free main memory of one process. With
    ``loops_bf16`` torch makes products of bf16 in loops of its own. ``devices``: the number of
    devices of this kind. ``without_kernels``: why only torch's kernels are used.
    """

    device: DeviceKind
    name: str
    memory_bytes: int
    fast_bf16: bool
    cores: int
    loops_bf16: bool = False
    devices: int = 1
    without_kernels: str = ""


class Fit(NamedTuple):
    """The most examples of a stage that fit in memory, and the most with all activations kept.

    ``recompute``: ``examples`` fit because each layer keeps its input only and the backward pass
    computes the rest again. Without it they are ``kept``.
    """

    examples: int
    kept: int
    recompute: bool


@dataclass(frozen=True)
class Plan:
    """The choices for a run on one machine.

    ``microbatches`` (examples of a process) and ``recompute`` have one entry a stage. A compiled
    step is compiled layer by layer.
    """

    device: DeviceKind
    precision: Literal["fp32", "bf16"]
    microbatches: tuple[int, ...]
    recompute: tuple[bool, ...]
    compile: bool
    reasons: tuple[str, ...]
    processes: int = 1
    strategy: Strategy = "single"


def plan(
    resolved: Resolved, machine: Machine, fits: tuple[Fit, ...], layout: Layout = ALONE
) -> Plan:
    """Decide the settings left at ``auto``; ``fits`` has one entry a stage."""
    run = resolved.run
    if run.device != "auto" and run.device != machine.device:
        raise MachineError(
            f"device={run.device} is not available: this machine has {machine.device}",
            help=f"--set device={machine.device}",
        )
    reasons = [layout.reason] if layout.reason else []
    if why := machine.without_kernels:
        reasons.append(f"dropout, norms and losses by torch's kernels, which takes longer: {why}")
    precision = run.precision
    if precision == "auto":
        precision = "bf16" if machine.fast_bf16 else "fp32"
        has = f"{precision}: {machine.name} has{'' if machine.fast_bf16 else ' no'}"
        instructions = "bf16 instructions, which halve the time of a step"
        reasons.append(f"{has} {instructions if machine.device == 'cpu' else 'fast bf16'}")
    if machine.device != "cpu":
        reasons.append(_SUMS[run.deterministic])
    if (idle := machine.devices - layout.world.per_host) > 0:
        most = min(machine.devices, *(stage.batch for stage in resolved.stages))
        reasons.append(f"{idle} of {machine.devices} GPUs are idle: --nproc {most}")
    compiled, why = _compilation(resolved, machine)
    reasons += [why] if why else []
    of_stages = [*zip(resolved.stages, fits, strict=True)]
    reasons += [
        f"recompute=on in stage {stage.name}: memory holds the activations of "
        f"{fit.kept} examples, or of {fit.examples} whose layers are computed twice"
        for stage, fit in of_stages
        if fit.recompute and run.recompute == "auto"
    ]
    microbatches = (_microbatch(stage, fit.examples, layout.world) for stage, fit in of_stages)
    return Plan(
        machine.device, precision, tuple(microbatches), tuple(fit.recompute for fit in fits),
        compiled, tuple(reasons), layout.world.size, layout.strategy,
    )  # fmt: skip


def _compilation(resolved: Resolved, machine: Machine) -> tuple[bool, str]:
    """Decide whether the step is compiled, with the reason if the spec left it open."""
    setting = resolved.run.compile
    if not _can_compile(resolved):
        why = f"a network of body={resolved.encoder.body_kind} is never compiled"
        if setting == "on":
            raise MachineError(f"compile=on: {why}", help="compile=auto")
        return False, f"compile=off: {why}"
    compiled = compiles(resolved, machine.device)
    if setting != "auto":
        return compiled, ""
    if compiled:
        return True, "compile=on: on cuda a compiled step is faster"
    if machine.device == "cuda":
        return False, "compile=off: a task this short is over before compiling pays"
    return False, "compile=off: on a CPU a compiled step is not faster"


def batches_at_once(tokens: int, device: str) -> int:
    """Number of batches, of ``tokens`` tokens each, that are fetched and corrupted in one call.

    A call takes as long for few rows as for many; on a CPU they stay small beside a small model.
    """
    return max(1, (1 << 16 if device == "cpu" else 1 << 18) // tokens)


def compiles(resolved: Resolved, device: DeviceKind) -> bool:
    """True if the step is compiled on this kind of device."""
    if not _can_compile(resolved):
        return False
    if resolved.run.compile == "auto":
        # On a CPU the step's own dropout and losses are as fast or faster (docs/measured.md).
        if device != "cuda" or any(isinstance(stage, TextStage) for stage in resolved.stages):
            return device == "cuda"
        weights = sum(weight.numel for weight in model_weights(resolved))
        tokens = sum(stage.steps * stage.batch * stage.seq for stage in resolved.stages)
        return 6 * weights * tokens >= COMPILING_PAYS_FLOPS
    return resolved.run.compile == "on"


def _can_compile(resolved: Resolved) -> bool:
    """True if all that a run trains can be compiled; a teacher that cannot runs as it is."""
    return all(network.body.compiles for stage in resolved.stages for network in stage.learned)


def choose_fit(
    stage: Stage, budget: DeviceBudget, with_activations: int, recomputed: Callable[[], int]
) -> Fit:
    """Choose between the most examples that fit ``with_activations`` and with these recomputed."""
    efficient, setting = EFFICIENT_TOKENS[budget.execution.device], budget.recompute
    enough = stage.microbatch or min(stage.batch, -(-efficient // stage.seq))
    if setting == "on" or (setting == "auto" and with_activations < enough):
        most = recomputed()
        if setting == "on" or most > with_activations:
            return Fit(most, with_activations, recompute=True)
    return Fit(with_activations, with_activations, recompute=False)


def _microbatch(stage: Stage, largest: int, world: World) -> int:
    """The stage's own micro-batch, or the largest that fits and cuts a share into equal parts."""
    if stage.microbatch:
        return min(stage.microbatch, world.share(stage.batch))
    if largest < 1:
        raise MachineError(
            f"stage {stage.name}: not even one example of {stage.seq} tokens fits in memory",
            help="a smaller model, a shorter seq, or a larger device",
        )
    return largest_divisor(world.share(stage.batch), largest)


def largest_divisor(batch: int, limit: int) -> int:
    """The largest divisor of ``batch`` up to ``limit``; at least 1."""
    if limit <= math.isqrt(batch):
        return next((size for size in range(limit, 1, -1) if batch % size == 0), 1)
    smaller = [size for size in range(1, math.isqrt(batch) + 1) if batch % size == 0]
    sizes = (*smaller, *(batch // size for size in smaller))
    return max((size for size in sizes if size <= limit), default=1)


def next_bytes(resolved: Resolved, step: int) -> int:
    """Bytes of the first checkpoint after a step, and of the model that a run ends with."""
    stored = model_weights(resolved.as_in(resolved.stages[-1]))
    if step < resolved.steps:
        stage = resolved.stage_after(step)
        table = model_weights(resolved.as_in(stage))
        moments = moments_of(stage.optimizer, table).values()
        copies = 1 + sum(method.holds is not None for method in stage.methods)
        stored = (*stored, *table * copies, *moments)
    return FP32 * sum(weight.numel for weight in stored)
