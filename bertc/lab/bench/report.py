"""The report of a benchmark, as text and as JSON."""

import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from typing import Any

import torch

from bertc import Estimate, UsageError, estimate
from bertc.lab.bench.measure import Timing, quartiles
from bertc.lab_api import Stepper, Table, device_named, units

PACKAGES = ("bertc", "torch", "transformers", "numpy")
HEAD = (
    "", "ms a step", "quartiles", "tokens/s", "matmul", "MFU", "first", "memory +", "x first"
)  # fmt: skip


@dataclass
class BenchReport:
    """The times of all contenders; the first is bertc as a run would train.

    ``matmul_flops`` is the best rate of the machine a second, ``command`` the command line.
    """

    timings: Sequence[Timing]
    matmul_flops: float
    command: tuple[str, ...]

    def __post_init__(self) -> None:
        by_program = {t.contender.stepper.program.fingerprint(): t for t in self.timings[::-1]}
        self.steppers = [timing.contender.stepper for timing in [*by_program.values()][::-1]]
        self.stepper = self.timings[0].contender.stepper
        self.resolved, self.plan = self.stepper.program, self.stepper.plan
        self.machine = self.stepper.machine

    @property
    def best_other(self) -> Timing | None:
        """The fastest contender that is not bertc."""
        others = [t for t in self.timings if not t.contender.name.startswith("bertc")]
        return min(others, key=lambda t: t.median, default=None)

    def fields(self) -> dict[str, Any]:
        """The report as plain values: times in seconds a step, shares as fractions of 1."""
        stage, machine = self.resolved.stages[0], self.machine
        cost = estimate_step(self.stepper)
        return {
            "schema": 1,
            "name": self.resolved.name,
            "fingerprint": self.resolved.fingerprint(),
            "command": ["bertc", *self.command],
            "versions": {"python": platform.python_version(), **{n: _version(n) for n in PACKAGES}},
            "device": {
                "kind": machine.device, "name": machine.name, "cores": machine.cores,
                "threads": torch.get_num_threads(),
                "matmul_flops_per_second": self.matmul_flops,
                "datasheet_flops_per_second": self._datasheet(self.plan.precision),
            },
            "step": {
                "stage": stage.name, "batch": stage.batch, "seq": stage.seq,
                "microbatch": self.plan.microbatches[0], "precision": self.plan.precision,
                "tokens": "random, in full rows", "useful_flops": cost.flops.train_per_step,
            },
            "rounds": len(self.timings[0].seconds),
            "estimate": {
                "peak_bytes": cost.memory.peak_bytes,
                "seconds_per_step": cost.time.seconds_per_step,
                "device": cost.time.device,
            },
            "contenders": [self._contender(timing) for timing in self.timings],
            "best_other": self.best_other.contender.name if self.best_other else None,
            "ratio_to_best_other": self._ratio(self.best_other) if self.best_other else None,
        }  # fmt: skip

    def as_json(self) -> str:
        """The report as one JSON object."""
        return json.dumps(self.fields(), indent=1)

    def summary(self) -> str:
        """A table of the contenders, and bertc's memory, waits and compilation."""
        stage, machine = self.resolved.stages[0], self.machine
        ours, best, rounds = self.timings[0], self.best_other, len(self.timings[0].seconds)
        lines = [
            *map(self._describe, count(1), self.steppers),
            f"{machine.device}, {machine.name}, {torch.get_num_threads()} threads, torch "
            f"{torch.__version__}; medians of {rounds} rounds",
            "",
            str(Table(HEAD, [*map(self._row, self.timings)])),
            "",
            *self._about_memory(),
            f"data: bertc waits {ours.wait_share:.1%} of a step for its batch"
            + "; others have theirs on the device, masked, before the clock starts" * bool(best),
            *(
                f"{t.contender.name}: {t.graphs} graphs, {t.graph_breaks} graph breaks, "
                f"{t.recompiles} recompiles"
                for t in self.timings
                if t.contender.compiled
            ),
        ]
        if best:
            first, third = quartiles(self._ratios(best))
            lines.append(
                f"bertc is {self._ratio(best):.2f} times as fast as {best.contender.name}, the "
                f"fastest of the others (a round: {first:.2f} to {third:.2f})"
            )
            if stage.optimizer.kind != "adamw":
                lines.append(
                    f"note: the others update by fused AdamW, bertc by {stage.optimizer.kind}"
                )
        return "\n".join(lines)

    def _describe(self, number: int, stepper: Stepper) -> str:
        stage, microbatch = stepper.program.stages[0], stepper.plan.microbatches[0]
        return (
            f"({number}) " * bool(self.steppers[1:]) + f"{stepper.program.name}, stage "
            f"{stage.name}: {stage.batch:,} x {stage.seq:,} tokens a step in micro-batches of "
            f"{microbatch:,}; random tokens in full rows"
        )

    def _about_memory(self) -> tuple[str, ...]:
        """Lines on the meaning of the memory column, and of the estimate."""
        peak = units.bytes_text(estimate_step(self.stepper).memory.peak_bytes)
        if self.plan.device == "cuda":
            return (f"memory +: the most that torch gave out at once; the estimate: {peak}",)
        return (
            "memory +: by how much the process grew at most, from just before its model was made",
            f"the estimate, {peak}, is of tensors alone; a process also holds what the C "
            "library keeps of freed ones, batches ahead, a compiler",
        )

    def _row(self, timing: Timing) -> tuple[str, ...]:
        fields = self._contender(timing)
        seconds, peak = fields["seconds"], timing.peak_bytes
        return (
            timing.contender.name, f"{1000 * timing.median:,.1f}",
            f"{1000 * seconds['quartile1']:,.1f}-{1000 * seconds['quartile3']:,.1f}",
            f"{fields['tokens_per_second']:,.0f}", f"{fields['matmul_share']:.1%}",
            "" if fields["mfu"] is None else f"{fields['mfu']:.1%}",
            units.duration_text(timing.first_seconds),
            "" if peak is None else units.bytes_text(peak), f"{fields['ratio']:.2f}",
        )  # fmt: skip

    def _contender(self, timing: Timing) -> dict[str, Any]:
        stepper = timing.contender.stepper
        stage, flops = stepper.program.stages[0], estimate_step(stepper).flops.train_per_step
        rate, datasheet = flops / timing.median, self._datasheet(timing.contender.precision)
        first, third = quartiles(timing.seconds)
        return {
            "name": timing.contender.name,
            "fingerprint": stepper.program.fingerprint(),
            "precision": timing.contender.precision,
            "compiled": timing.contender.compiled,
            "seconds": {
                "median": timing.median, "quartile1": first, "quartile3": third,
                "min": min(timing.seconds), "max": max(timing.seconds), "all": timing.seconds,
            },
            "ratio": self._ratio(timing),
            "ratio_quartiles": [*quartiles(self._ratios(timing))],
            "tokens_per_second": stage.tokens_per_step / timing.median,
            "matmul_share": rate / self.matmul_flops,
            "mfu": rate / datasheet if datasheet else None,
            "first_step_seconds": timing.first_seconds,
            "peak_bytes": timing.peak_bytes,
            "data_wait_share": timing.wait_share,
            "graphs": timing.graphs,
            "graph_breaks": timing.graph_breaks,
            "recompiles": timing.recompiles,
        }  # fmt: skip

    def _ratio(self, timing: Timing) -> float:
        """The contender's median time over bertc's."""
        return timing.median / self.timings[0].median

    def _ratios(self, timing: Timing) -> list[float]:
        """The contender's time over bertc's in each round."""
        return [a / b for a, b in zip(timing.seconds, self.timings[0].seconds, strict=True)]

    def _datasheet(self, precision: Any) -> float | None:
        try:
            device = device_named(self.machine.name)
        except UsageError:  # a CPU, or a GPU without known figures
            return None
        return device.peak_flops(precision) if device.fp32_flops else None


@cache
def estimate_step(stepper: Stepper) -> Estimate:
    """The estimate of a step, for the micro-batch that was run."""
    resolved, plan = stepper.program, stepper.plan
    stage = resolved.stages[0].model_copy(update={"microbatch": plan.microbatches[0]})
    run = resolved.run.model_copy(update={"precision": plan.precision})
    update = {"stages": (stage,), "run": run}
    return estimate(resolved.model_copy(update=update), stepper.device)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
