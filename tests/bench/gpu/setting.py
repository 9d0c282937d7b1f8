"""Where the parts run, the steps that they take there, and what was measured.
That is written to a file after each measurement, and shown as a table.
"""

import json
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from bertc.api import resolve
from bertc.ir.program.resolved import Resolved
from bertc.learn.step.feed import Batch, to_inputs
from bertc.learn.step.step import StepResult, TrainStep
from bertc.machine.machine import detect, kernels
from bertc.run.beginning.synthetic import RandomText
from tests.bench.rig import make_step

TOY = "layers=2 hidden=64 heads=2 vocab=500 seq=64 batch=8 steps=100"


@dataclass(frozen=True)
class Setting:
    """``tiny``: everything small, and compiled parts traced, as a test of the bench.
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
        traced = partial(torch.compile, backend="eager")
        return patch.object(torch, "compile", traced)

    def kernels(self, resolved: Resolved) -> AbstractContextManager[None]:
        """Inside, torch chooses kernels as in a run."""
        return kernels(resolved.run, detect(resolved.run.device).device)


Values = dict[str, Any]
CUT = "cut"


@dataclass
class Results:
    """The measurements of one part, in ``FOLDER/PART.json``.
    Those of a part whose time ran out are gone on with; any others are replaced.
    """

    part: str
    folder: Path
    found: dict[str, Values] = field(init=False)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        before = read(self.folder, self.part)
        self.found = before if before.pop(CUT, None) else {}

    def measure(self, name: str, take: Callable[[], object]) -> None:
        """Take a measurement that is not there yet; one that breaks off stops no other."""
        if name not in self.found:
            try:
                take()
            except Exception as error:  # what a device may refuse is not known beforehand
                self.put(name, error=f"{type(error).__name__}: {str(error)[:500]}")

    def measure_each(self, setting: object, *takes: Callable[..., object]) -> None:
        """Take measurements with a setting, each by the name of its function."""
        for take in takes:
            self.measure(take.__name__, partial(take, setting, self))

    def put(self, name: str, **values: Any) -> None:
        """Write what one measurement showed, before the next one begins."""
        self.found[name] = values
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.part}.json"
        path.with_suffix(".tmp").write_text(json.dumps(self.found, indent=1) + "\n")
        os.replace(path.with_suffix(".tmp"), path)
        print(f"{time.monotonic() - self.started:6.1f} s  {name}: {shown(values)}", flush=True)

    def check(self, name: str, ok: bool, **values: Any) -> None:
        """Keep what should be so, and whether it is."""
        self.put(name, ok=bool(ok), **values)


def read(folder: Path, part: str) -> dict[str, Values]:
    """What a part found, if it ran."""
    path = folder / f"{part}.json"
    found: dict[str, Values] = json.loads(path.read_text()) if path.is_file() else {}
    return found


def untrue(found: dict[str, Values]) -> list[str]:
    """The checks that failed, and those that broke off."""
    return [name for name, values in found.items() if not values.get("ok", "error" not in values)]


def shown(value: Any) -> str:
    """A number in four digits; a list and a dictionary by their items."""
    match value:
        case float():
            return f"{value:.4g}"
        case list():
            return " ".join(map(shown, value)) or "none"
        case dict():
            return ", ".join(f"{key} {shown(item)}" for key, item in value.items())
        case _:
            return str(value)


def table(folder: Path, parts: tuple[str, ...]) -> str:
    """All measurements, a row each."""
    lines = ["| part | measured | found |", "|---|---|---|"]
    for part in parts:
        for name, values in read(folder, part).items():
            lines.append(f"| {part} | {name} | {shown(values)} |")
    return "\n".join(lines)
