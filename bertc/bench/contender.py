"""Who is timed: bertc itself, as a run would train."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Literal

import torch

from bertc.ir.resolved import Resolved
from bertc.nn import build
from bertc.passes import Plan
from bertc.train.feed import Feed
from bertc.train.heap import kept_memory
from bertc.train.machine import determinism
from bertc.train.schedules import rate
from bertc.train.synthetic import RandomText, first_step

ENDLESS = 10**9

Precision = Literal["fp32", "bf16"]
Step = Callable[[], float]
"""One optimiser step; the seconds that it waited for its data."""


@dataclass(frozen=True)
class Contender:
    """A training step to be timed. ``open`` allocates it, ``turn`` is what its turns happen in."""

    name: str
    precision: Precision
    compiled: bool
    open: Callable[[], AbstractContextManager[Step]]
    turn: Callable[[], AbstractContextManager[None]]


def bertc(resolved: Resolved, plan: Plan, name: str) -> Contender:
    """The step that ``train`` runs under a plan: fetch, mask, forward, backward, clip, update."""

    @contextmanager
    def open() -> Iterator[Step]:
        stage, device = resolved.stages[0], torch.device(plan.device)
        model = build(resolved, plan.device)
        model.compute_dtype = torch.bfloat16 if plan.precision == "bf16" else torch.float32
        update, done = first_step(resolved, model, plan), count()
        text = RandomText(stage, resolved.encoder.vocab_size)
        with kept_memory(), Feed(text, 0, ENDLESS, device, update.corrupt) as feed:

            def step() -> float:
                started = time.perf_counter()
                batch = feed.take()
                waited = time.perf_counter() - started
                index = next(done)
                update(batch, index, rate(stage, index))
                return waited

            yield step

    return Contender(name, plan.precision, plan.compile, open, determinism)
