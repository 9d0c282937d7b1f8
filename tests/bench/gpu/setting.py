"""Where the parts run: the device, at which size, and the steps that they take there."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from unittest.mock import patch

import torch

from bertc.api import resolve
from bertc.ir.program.resolved import Resolved
from bertc.learn.step.feed import Batch, to_inputs
from bertc.learn.step.step import StepResult, TrainStep
from bertc.machine.machine import detect, finish, kernels
from bertc.run.beginning.synthetic import RandomText
from tests.bench.rig import make_step

TOY = "layers=2 hidden=64 heads=2 vocab=500 seq=64 batch=8 steps=100"


@dataclass(frozen=True)
class Setting:
    """``tiny``: everything small, and compiled parts traced without code, as a test of the bench.

    ``device`` is as torch calls it.
    """

    device: torch.device
    tiny: bool

    @property
    def kind(self) -> str:
        """As specs and torch call it, without a number."""
        return self.device.type

    def resolved(self, spec: str, *overrides: str) -> Resolved:
        """A spec whose whole batch is one micro-batch, unless it says otherwise."""
        own = [f"device={self.kind}", *overrides]
        stage = resolve(spec, own).stages[0]
        return resolve(spec, [*own, f"microbatch={stage.microbatch or stage.batch}"])

    def step(self, resolved: Resolved, compiled: bool = False) -> TrainStep:
        """The step of the first stage, as a run would begin with it."""
        with self.compiler():
            return make_step(resolved, resolved.stages[0].microbatch, compiled, self.kind)

    def batches(self, resolved: Resolved, step: TrainStep) -> Callable[[int], Batch]:
        """Batch number i of random tokens, on the device."""
        stage = resolved.stages[0]
        text = RandomText(stage, resolved.encoder.vocab_size)
        return lambda number: step.read(to_inputs(text.train(number), self.device))

    def steps(self, resolved: Resolved, compiled: bool = False) -> Callable[[int], StepResult]:
        """Step number i of the first stage, on random tokens: fetch, mask, learn, update."""
        step = self.step(resolved, compiled)
        batches, rate = self.batches(resolved, step), 1e-3
        return lambda number: step(batches(number), number, rate)

    def compiler(self) -> AbstractContextManager[object]:
        """Inside, what is compiled is compiled, or in a tiny bench traced."""
        if not self.tiny:
            return nullcontext()
        traced = partial(torch.compile, backend="aot_eager")
        return patch.object(torch, "compile", traced)

    def kernels(self, resolved: Resolved) -> AbstractContextManager[None]:
        """Inside, torch chooses kernels as in a run."""
        return kernels(resolved.run, detect(resolved.run.device).device)

    def finish(self) -> None:
        """Wait for the device."""
        finish(self.device)
