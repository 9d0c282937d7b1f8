"""The timer: contenders take turns, one each in every round."""

import gc
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import torch

from bertc import MachineError
from bertc.lab.bench.contender import Contender, Step, warmed_up

WARM_STEPS = 2
"""Untimed steps after the first one, which compiles."""
TURN_SECONDS = 0.25
"""Seconds that a turn takes at least, and one step at least."""


Contenders = Callable[[], Sequence[Contender]]
"""Makes all contenders, in any process."""


@dataclass
class Timing:
    """The times of one contender.

    Each round has an entry in ``seconds`` of a step, and in ``wait_seconds`` of them for data.
    """

    contender: Contender
    first_seconds: float
    graphs: int
    graph_breaks: int
    recompiles: int = 0
    peak_bytes: int | None = None
    seconds: list[float] = field(default_factory=list)
    wait_seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Median seconds a step."""
        return statistics.median(self.seconds)

    @property
    def wait_share(self) -> float:
        """Median fraction of a step spent waiting for data."""
        waits = zip(self.wait_seconds, self.seconds, strict=True)
        return statistics.median(waited / step for waited, step in waits)


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third quartile, by interpolation between observed values."""
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def take_turns(
    make: Contenders, device: torch.device, rounds: int, say: Callable[[str], None]
) -> list[Timing]:
    """Open each contender in a process of its own, then time them A B C A B C.

    Raises:
        MachineError: if one of them was killed, as happens when memory runs out.
    """
    with ExitStack() as stack:
        running = []
        for index, contender in enumerate(make()):
            say(f"{contender.name}: first step" + " and compilation" * contender.compiled)
            running.append(_Running(stack, make, index, contender, device))
        for done in range(rounds):
            say(f"round {done + 1} of {rounds}")
            for process in running:
                process.turn()
        return [process.timing for process in running]


class _Running:
    """A contender, allocated, compiled and warm, in a process that waits for its turn.

    Separate processes keep contenders out of each other's memory and compiler caches.
    """

    def __init__(
        self,
        stack: ExitStack,
        make: Contenders,
        index: int,
        contender: Contender,
        device: torch.device,
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, child_end = context.Pipe()
        process = context.Process(target=_serve, args=(child_end, make, index, device), daemon=True)
        process.start()
        child_end.close()
        stack.callback(process.join)
        stack.callback(self._pipe.close)
        first, graphs, breaks, peak = self._answer(contender)
        self.timing = Timing(contender, first, graphs, breaks, peak_bytes=peak)

    def turn(self) -> None:
        """Time one turn."""
        self._pipe.send("turn")
        seconds, waited, recompiles = self._answer(self.timing.contender)
        self.timing.seconds.append(seconds)
        self.timing.wait_seconds.append(waited)
        self.timing.recompiles += recompiles

    def _answer(self, contender: Contender) -> Any:
        try:
            answer = self._pipe.recv()
        except EOFError:
            raise MachineError(
                f"the process of {contender.name} ended, as where memory runs out",
                help="a smaller batch or microbatch",
            ) from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve(pipe: Connection, make: Contenders, index: int, device: torch.device) -> None:
    """Run in the process of a contender: take the first step, then a turn at each request."""
    try:
        contender = make()[index]
        small = warmed_up(device, contender)
        gc.collect()
        gauge = small.gauge()
        with contender.open() as step, contender.turn():
            first, _ = _timed(step, 1, gauge)
            compiled = gauge.graphs, gauge.graph_breaks
            warm, _ = _timed(step, WARM_STEPS, gauge)
            steps = max(1, math.ceil(TURN_SECONDS / warm))
            pipe.send((first, *compiled, gauge.peak_bytes))
            while True:
                pipe.recv()
                graphs = gauge.graphs
                seconds, waited = _timed(step, steps, gauge)
                pipe.send((seconds, waited, gauge.graphs - graphs))
    except EOFError:
        pass  # no more turns
    except Exception as error:
        pipe.send(error)


def _timed(step: Step, steps: int, gauge: Any) -> tuple[float, float]:
    """Mean seconds of a step over ``steps``, and those of them spent waiting for data."""
    gauge.finish()
    started = time.perf_counter()
    waited = sum(step() for _ in range(steps))
    gauge.finish()
    return (time.perf_counter() - started) / steps, waited / steps
