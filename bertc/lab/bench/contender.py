"""The systems under test: bertc itself, with the step that a run would take."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Literal

import torch

from bertc import Resolved
from bertc.check.passes import resolve
from bertc.cost.planning.plan import Plan
from bertc.cost.planning.schedules import rate
from bertc.ir.program.written import Given, Origin, Program
from bertc.ir.vocabulary import WordPiece
from bertc.learn.step.feed import Feed
from bertc.machine.heap import keep_freed_memory
from bertc.machine.machine import kernels, make_plan
from bertc.model import build
from bertc.run.beginning.synthetic import RandomText, first_step

UNBOUNDED_STEPS = 10**9
SMALL = {
    "layers": 1, "hidden": 32, "heads": 2, "seq": 16, "batch": 4, "microbatch": 2, "steps": 10,
    "vocab": WordPiece(size=64), "compile": "off",
}  # fmt: skip

Precision = Literal["fp32", "bf16"]
Step = Callable[[], float]
"""One optimiser step; returns the seconds that it waited for its data."""


@dataclass(frozen=True)
class Contender:
    """A training step to be timed.

    ``open`` allocates it, ``turn`` surrounds the timed steps.
    """

    name: str
    precision: Precision
    compiled: bool
    open: Callable[[], AbstractContextManager[Step]]
    turn: Callable[[], AbstractContextManager[None]]


def bertc(resolved: Resolved, plan: Plan, name: str) -> Contender:
    """The step that ``train`` runs under a plan: fetch, mask, forward, backward, clip, update."""
    stage, device = resolved.stages[0], torch.device(plan.device)
    # Made here, since a run has its text on the disk.
    text = RandomText(stage, resolved.encoder.vocab_size)

    @contextmanager
    def open() -> Iterator[Step]:
        model = build(resolved, plan.device)
        model.compute_dtype = torch.bfloat16 if plan.precision == "bf16" else torch.float32
        update, done = first_step(resolved, model, plan), count()
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

    return Contender(
        name, plan.precision, plan.compile, open, partial(kernels, resolved.run, plan.device)
    )


def load_kernels(device: torch.device, contender: Contender) -> None:
    """Warm up torch with a step of a small model, so that loading kernels is not timed.

    The code of its kernels and their workspaces are some 25 MiB, whatever the model. Libraries read
    their settings at first use, so this runs inside the contender's ``turn``.
    """
    with contender.turn(), small(device.type, contender.precision)[1].open() as step:
        step()


def small(device: str, precision: Precision) -> tuple[Resolved, Contender]:
    """A program whose step takes next to no time, and that step."""
    settings = {**SMALL, "device": device, "precision": precision}
    given = {name: Given(value, Origin("written")) for name, value in settings.items()}
    resolved = resolve(Program("small", given))
    return resolved, bertc(resolved, make_plan(resolved), "small")
