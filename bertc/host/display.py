"""What a person sees while a run goes on: a live line on a terminal, plain lines elsewhere.

All of it goes to stderr.
"""

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

PLAIN_SECONDS = 30.0
"""Between two plain lines."""
LIVE_SECONDS = 0.1
"""Between two figures on a terminal, which is drawn anew as often."""
WORTH_TELLING = 60.0
"""Seconds that a run takes from which they are told: those of tiny models are too few."""
SILENT_SECONDS = 5.0
"""Before the first plain line about an evaluation between steps; most are over by then."""


@dataclass(frozen=True)
class Standing:
    """Where a run stands after a step. ``memory_bytes`` is the most that was in use so far."""

    step: int
    steps: int
    stage: str
    loss: float
    tokens_per_second: float
    seconds_left: float
    memory_bytes: int


class Display(Protocol):
    """Shows the course of a run; also of a preparation, whose methods are those of the data's."""

    def begin(self, task: str, total: int, unit: str) -> None:
        """A part of the preparation starts; ``total`` is 0 if unknown."""

    def advance(self, amount: int) -> None:
        """``amount`` more of it is done."""

    def end(self) -> None:
        """It is done."""

    def note(self, message: str) -> None:
        """Something worth a line."""

    def step(self, standing: Callable[[], Standing]) -> None:
        """A step is done; where it stands is asked only where it is shown."""

    def close(self) -> None:
        """Nothing more will come."""


def choose(quiet: bool) -> Display:
    """Live on a terminal, plain lines elsewhere, nothing if ``quiet``."""
    if quiet:
        return Quiet()
    console = Console(stderr=True, highlight=False)
    return Live(console) if console.is_terminal else Plain(console)


def peak_memory_bytes(device: str) -> int:
    """The most memory this process has used, on the device or in main memory."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    if device == "mps":
        return torch.mps.driver_allocated_memory()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


class Quiet:
    """Shows nothing."""

    def begin(self, task: str, total: int, unit: str) -> None:
        """Nothing."""

    def advance(self, amount: int) -> None:
        """Nothing."""

    def end(self) -> None:
        """Nothing."""

    def note(self, message: str) -> None:
        """Nothing."""

    def step(self, standing: Callable[[], Standing]) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Plain:
    """A line now and then, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = -PLAIN_SECONDS
        self._task, self._unit, self._done, self._total, self._began = "", "", 0, 0, 0.0
        self._training, self._stepped = False, self._last

    def begin(self, task: str, total: int, unit: str) -> None:
        """Say what starts; between two steps only once it takes its time."""
        self._task, self._unit, self._done, self._total = task, unit, 0, total
        self._began = self._last = time.monotonic()
        if self._training:
            self._last -= PLAIN_SECONDS - SILENT_SECONDS
        else:
            self._say(f"{task} ...")

    def advance(self, amount: int) -> None:
        """Say how far it is, at times."""
        self._done += amount
        if self._due():
            rate = self._done / max(1e-9, time.monotonic() - self._began)
            left = max(0, self._total - self._done) / max(1e-9, rate)
            of = f" of {self._total:,}, {clock(left)} left" if self._total else ""
            self._say(f"{self._task}: {self._done:,} {self._unit}{of}, {rate:,.0f}/s")

    def end(self) -> None:
        """Let the first step be shown at once, and others when they would have been."""
        self._last = self._stepped

    def note(self, message: str) -> None:
        """Say it."""
        self._say(message)

    def step(self, standing: Callable[[], Standing]) -> None:
        """Say where the run stands, at times."""
        self._training = True
        if self._due():
            now = standing()
            self._say(
                f"step {now.step:,}/{now.steps:,} ({now.stage}): "
                f"loss {now.loss:.3f}, {_figures(now)}, {clock(now.seconds_left)} left"
            )
            self._stepped = self._last

    def close(self) -> None:
        """Nothing is left open."""

    def _due(self) -> bool:
        if time.monotonic() - self._last < PLAIN_SECONDS:
            return False
        self._last = time.monotonic()
        return True

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True)


class _Left(TimeRemainingColumn):
    """The time left as it is told, and else as it follows from the pace."""

    def render(self, task: Task) -> Text:
        """What stands in the column."""
        told = task.fields.get("left")
        return Text(f"{told} left", style="progress.remaining") if told else super().render(task)


class Live:
    """One line that moves."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            _Left(),
            console=console,
            transient=True,
        )
        self._task: TaskID | None = None
        self._training, self._last = False, -LIVE_SECONDS

    def begin(self, task: str, total: int, unit: str) -> None:
        """Start a bar."""
        self._start(f"{task} ({unit})", total or None)

    def advance(self, amount: int) -> None:
        """Move it."""
        if self._task is not None:
            self._progress.advance(self._task, amount)

    def end(self) -> None:
        """Take it away; the next step brings back that of the run."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task, self._training, self._last = None, False, -LIVE_SECONDS

    def note(self, message: str) -> None:
        """A line above the bar."""
        self._progress.console.print(message, markup=False)

    def step(self, standing: Callable[[], Standing]) -> None:
        """Move the bar of the run."""
        if time.monotonic() - self._last < LIVE_SECONDS:
            return
        self._last = time.monotonic()
        now = standing()
        if not self._training:
            self._start(now.stage, now.steps, training=True)
        assert self._task is not None, "the bar was started above"
        self._progress.update(
            self._task,
            completed=now.step,
            description=now.stage,
            figures=f"loss {now.loss:.3f}  {_figures(now)}",
            left=clock(now.seconds_left),
        )

    def close(self) -> None:
        """Take the bar away and give the terminal back."""
        self._progress.stop()

    def _start(self, description: str, total: int | None, training: bool = False) -> None:
        self.end()
        self._training = training
        self._progress.start()
        self._task = self._progress.add_task(description, total=total, figures="")


def _figures(standing: Standing) -> str:
    return f"{standing.tokens_per_second:,.0f} tokens/s, {standing.memory_bytes / 2**30:.1f} GiB"


def clock(seconds: float) -> str:
    """Seconds as "41 s", "5:03" or "2:05:03"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
