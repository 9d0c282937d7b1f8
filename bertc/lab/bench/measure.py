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
from bertc.lab.bench.contender import Contender, Step, warm_up_torch

WARM_STEPS = 2
"""Untimed steps after the first one, which compiles."""
TURN_SECONDS = 0.25
"""Seconds that a turn takes at least, and one step at least."""


Contenders = Callable[[], Sequence[Contender]]
"""Makes all contenders, in any process."""


@dataclass
class Timing:
    """The times of one contender by round: of a step, and what of it was a wait for data."""

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
    """Open each contender in a process of its own, then time them A B C A B C."""
    with ExitStack() as stack:
        running = list[tuple[Worker, Timing]]()
        for index, contender in enumerate(make()):
            say(f"{contender.name}: first step" + " and compilation" * contender.compiled)
            smaller, name = "a smaller batch or microbatch", contender.name
            worker = Worker(stack, _serve, make, index, device, title=name, help=smaller)
            first, graphs, breaks, peak = worker.first
            running.append((worker, Timing(contender, first, graphs, breaks, peak_bytes=peak)))
        for done in range(rounds):
            say(f"round {done + 1} of {rounds}")
            for worker, timing in running:
                seconds, waited, recompiles = worker.ask("turn")
                timing.seconds.append(seconds)
                timing.wait_seconds.append(waited)
                timing.recompiles += recompiles
        return [timing for _, timing in running]


class Worker:
    """A process apart from the memory and threads of others; ``help`` is for one that is killed."""

    def __init__(
        self, stack: ExitStack, serve: Callable[..., None], *arguments: Any, title: str, help: str
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, child_end = context.Pipe()
        arguments = (serve, child_end, *arguments)
        process = context.Process(target=_answering, args=arguments, daemon=True)
        process.start()
        child_end.close()
        stack.callback(process.join)
        stack.callback(self._pipe.close)
        self._title, self._help = title, help
        self.first = self._answer()
        """The answer once it is warm."""

    def ask(self, request: object) -> Any:
        """The answer to a request."""
        self._pipe.send(request)
        return self._answer()

    def _answer(self) -> Any:
        try:
            answer = self._pipe.recv()
        except EOFError:
            why = f"the process of {self._title} ended, as where memory runs out"
            raise MachineError(why, help=self._help) from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def _answering(serve: Callable[..., None], pipe: Connection, *arguments: Any) -> None:
    """Run in the process of a worker, until there are no more requests."""
    try:
        serve(pipe, *arguments)
    except EOFError:
        pass
    except Exception as error:
        pipe.send(error)


def _serve(pipe: Connection, make: Contenders, index: int, device: torch.device) -> None:
    """Take the first step of a contender, then a turn at each request."""
    contender = make()[index]
    small = warm_up_torch(device, contender)
    gc.collect()
    gauge = small.gauge()
    with contender.open() as step, contender.turn():
        first, _ = _time_steps(step, 1, gauge)
        compiled = gauge.graphs
        warm, _ = _time_steps(step, WARM_STEPS, gauge)
        steps = max(1, math.ceil(TURN_SECONDS / warm))
        pipe.send((first, *compiled, gauge.peak_bytes))
        while True:
            gauge.release()
            pipe.recv()
            graphs, _ = gauge.graphs
            if device.type != "cpu":
                step()  # takes the memory again
            seconds, waited = _time_steps(step, steps, gauge)
            pipe.send((seconds, waited, gauge.graphs[0] - graphs))


def _time_steps(step: Step, steps: int, gauge: Any) -> tuple[float, float]:
    """Mean seconds of a step over ``steps``, and those of them spent waiting for data."""
    gauge.finish()
    started = time.perf_counter()
    waited = sum(step() for _ in range(steps))
    gauge.finish()
    return (time.perf_counter() - started) / steps, waited / steps
