"""The training step of a program, for those who time it: the one that a run would take here."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import Literal

import torch

from bertc.check.passes import resolve
from bertc.cost.machines.device import Device
from bertc.cost.planning.plan import Machine, Plan
from bertc.cost.planning.schedules import rate
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.written import Program
from bertc.ir.vocabulary import WordPiece
from bertc.learn.step.feed import Feed
from bertc.machine.machine import (
    detect,
    device_here,
    dtype_of,
    finish,
    kernels,
    make_plan,
    matmul_flops_per_second,
)
from bertc.machine.memory import begin_peak, keep_freed_memory, peak_beyond
from bertc.model import build
from bertc.run.beginning.synthetic import RandomText, first_step
from bertc.run.counterpart import Counterpart, counterpart

UNBOUNDED_STEPS = 10**9
SMALL_PROGRAM = {
    "layers": 1, "hidden": 32, "heads": 2, "seq": 16, "batch": 4, "microbatch": 2, "steps": 10,
    "vocab": WordPiece(size=64), "compile": "off",
}  # fmt: skip

Step = Callable[[], float]
"""One optimiser step; returns the seconds that it waited for its data."""


class Stepper:
    """The step of a program's first stage on random tokens in full rows, under its plan here."""

    def __init__(self, program: Resolved, plan: Plan | None = None) -> None:
        """Plan the program for this machine, unless there is a plan."""
        self.plan = plan or make_plan(program)
        self.program = program.as_in(program.stages[0])

    @staticmethod
    def small(device: str, precision: Literal["fp32", "bf16"]) -> "Stepper":
        """A step that takes next to no time, on a device such as ``cpu``."""
        settings = {**SMALL_PROGRAM, "device": device, "precision": precision}
        return Stepper(resolve(Program("small", {}).with_values(**settings)))

    @property
    def compiled(self) -> "Stepper":
        """The same step, compiled."""
        return Stepper(self.program, replace(self.plan, compile=True))

    @cached_property
    def machine(self) -> Machine:
        """The machine: its device, name, cores and memory in bytes."""
        return detect(self.program.run.device)

    @property
    def device(self) -> Device:
        """The figures of its device, as estimates use them."""
        return device_here(self.machine)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Surround steps by what a run sets: the kernels that it may use."""
        with kernels(self.program.run, self.plan.device):
            yield

    @contextmanager
    def open(self) -> Iterator[Step]:
        """Allocate the model; the result fetches, masks, computes gradients, clips and updates."""
        stage, device = self.program.stages[0], torch.device(self.plan.device)
        # Made here, since a run has its text on the disk.
        text = RandomText(stage, self.program.encoder.vocab_size)
        model = build(self.program, self.plan.device)
        model.compute_dtype = dtype_of(self.plan)
        update, done = first_step(self.program, model, self.plan), count()
        with keep_freed_memory(), Feed(text, 0, UNBOUNDED_STEPS, device, update.corrupt) as feed:

            def step() -> float:
                waited, index = 0.0, next(done)

                def look_ahead() -> None:
                    nonlocal waited
                    started = time.perf_counter()
                    feed.look_ahead()
                    waited += time.perf_counter() - started

                look_ahead()
                update(feed.take(), index, rate(stage, index), look_ahead)
                return waited

            yield step

    def counterpart(self) -> Counterpart:
        """transformers' model of the program, and the first batch as that reads it."""
        return counterpart(self.program, self.plan.microbatches[0])

    def gauge(self) -> "Gauge":
        """Measure this process on the step's device from now on."""
        return Gauge(torch.device(self.plan.device))

    def matmul_rate(self) -> float:
        """The best rate of a large square product here, in FLOP/s; takes about a second."""
        return matmul_flops_per_second(torch.device(self.plan.device), dtype_of(self.plan))


class Gauge:
    """Measures of this process on a device: the end of its work, peak bytes, compiled graphs."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before, self._graphs = begin_peak(device), graphs_so_far()

    def finish(self) -> None:
        """Wait until all work that was queued is done."""
        finish(self._device)

    def release(self) -> None:
        """Give memory that is not in use back to the device, for other processes."""
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    @property
    def peak_bytes(self) -> int | None:
        """The most memory since the beginning beyond that in use then; None if unknown."""
        return peak_beyond(self._device, self._before)

    @property
    def graphs(self) -> int:
        """The graphs that were compiled since the beginning."""
        return graphs_so_far()[0] - self._graphs[0]

    @property
    def graph_breaks(self) -> int:
        """The breaks between graphs since the beginning."""
        return graphs_so_far()[1] - self._graphs[1]


def graphs_so_far() -> tuple[int, int]:
    """Counts of torch's compiler: graphs, a later one is a recompilation; breaks between graphs."""
    from torch._dynamo.utils import counters  # the compiler takes a second to load

    return counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
