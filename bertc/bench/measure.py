"""The clock: every contender takes its turn in every round."""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch

from bertc.bench.contender import Contender
from bertc.bench.device import begin_peak, finish, peak_bytes
from bertc.train.graphs import Graphs, graphs_so_far

WARM_STEPS = 2
"""After the first, which compiles, and before the clock."""
TURN_SECONDS = 0.25
"""A turn is as many steps as take this long, at least one."""


@dataclass
class Timing:
    """What was seen of one contender; ``seconds`` and ``waits`` are a step's, one entry a round."""

    contender: Contender
    first_seconds: float
    graphs: Graphs
    recompiles: int = 0
    peak_bytes: int | None = None
    seconds: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Seconds of a step."""
        return statistics.median(self.seconds)

    @property
    def wait_share(self) -> float:
        """The part of a step that it waits for its data."""
        return statistics.median(w / s for w, s in zip(self.waits, self.seconds, strict=True))


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third quartile, observed values included."""
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def take_turns(
    contenders: Sequence[Contender],
    device: torch.device,
    rounds: int,
    say: Callable[[str], None],
) -> list[Timing]:
    """Open all contenders, then time them A B C A B C."""
    with ExitStack() as stack:
        running = [_Running(stack, contender, device, say) for contender in contenders]
        for done in range(rounds):
            say(f"round {done + 1} of {rounds}")
            for each in running:
                each.turn()
        return [each.timing for each in running]


class _Running:
    """A contender that is allocated, compiled and warm."""

    def __init__(
        self,
        stack: ExitStack,
        contender: Contender,
        device: torch.device,
        say: Callable[[str], None],
    ) -> None:
        say(f"{contender.name}: first step" + " and compilation" * contender.compiled)
        self._device, before, graphs = device, begin_peak(device), graphs_so_far()
        self._step = stack.enter_context(contender.open())
        with contender.turn():
            first, _ = self._timed(1)
            self.timing = Timing(contender, first, graphs_so_far().since(graphs))
            warm, _ = self._timed(WARM_STEPS)
        self._steps = max(1, math.ceil(TURN_SECONDS / warm))
        self.timing.peak_bytes = peak_bytes(device, before)

    def turn(self) -> None:
        """Time one turn."""
        before = graphs_so_far()
        with self.timing.contender.turn():
            seconds, waited = self._timed(self._steps)
        self.timing.seconds.append(seconds)
        self.timing.waits.append(waited)
        self.timing.recompiles += graphs_so_far().since(before).compiled

    def _timed(self, steps: int) -> tuple[float, float]:
        """Seconds of a step, and of them those that it waited for data; means over ``steps``."""
        finish(self._device)
        started = time.perf_counter()
        waited = sum(self._step() for _ in range(steps))
        finish(self._device)
        return (time.perf_counter() - started) / steps, waited / steps
