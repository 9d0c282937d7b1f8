"""Progress of a run on stderr: a live line on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from rich import progress
from rich.console import Console
from rich.text import Text

from bertc.base.diagnostics import for_terminal
from bertc.cost.units import duration_text
from bertc.machine.signals import Stop
from bertc.text.cache.store import Silent

PLAIN_SECONDS = 30.0
"""Seconds between two plain lines."""
LIVE_SECONDS = 0.1
"""Seconds between two updates of the live line."""
SHORTEST_FORECAST_SECONDS = 60.0
"""Seconds up to which a run is so short that no forecast of its end is shown."""


@dataclass(frozen=True)
class Standing:
    """Progress of a run after a step; ``memory_bytes`` is the peak so far.

    ``seconds_left`` is None after a stage's first step, a cold one, from which nothing follows.
    """

    step: int
    steps: int
    stage: str
    loss: float
    tokens_per_second: float
    seconds_left: float | None
    memory_bytes: int


class Display(Silent):
    """The progress of a run, and of the preparation of its data; this one shows nothing."""

    def step(self, standing: Callable[[], Standing]) -> None:
        """Count a step as done; ``standing`` is called only if progress is shown now."""

    def close(self) -> None:
        """End the display."""


class Watched(Display):
    """The display of preparations, which also raises if the run is asked to stop."""

    def __init__(self, display: Display, stop: Stop) -> None:
        self._display, self._stop = display, stop

    def begin(self, task: str, total: int, unit: str) -> None:
        self._stop.check_alone()
        self._display.begin(task, total, unit)

    def advance(self, amount: int) -> None:
        self._stop.check_alone()
        self._display.advance(amount)

    def end(self) -> None:
        self._display.end()

    def note(self, message: str) -> None:
        self._display.note(message)


def choose(quiet: bool) -> Display:
    """Choose the display: live on a terminal, plain lines elsewhere, none if ``quiet``."""
    if quiet:
        return Display()
    console = Console(stderr=True, highlight=False)
    return Live(console) if console.is_terminal else Plain(console)


@contextmanager
def watching(way_on: str) -> Iterator[Watched]:
    """Show the progress of a command that can be stopped; ``way_on`` says what then goes on."""
    with closing(choose(quiet=False)) as display, Stop(way_on=way_on) as stop:
        yield Watched(display, stop)


class Plain(Display):
    """A display for logs and pipes: a line every 30 seconds."""

    def __init__(self, console: Console) -> None:
        self._console, self._last = console, -PLAIN_SECONDS
        self._task, self._unit, self._done, self._total, self._began = "", "", 0, 0, 0.0
        self._training, self._stepped = False, self._last

    def begin(self, task: str, total: int, unit: str) -> None:
        """Print the name of the task; during training only if it takes more than 5 seconds."""
        self._task, self._unit, self._done, self._total = task, unit, 0, total
        self._began = self._last = time.monotonic()
        if self._training:
            self._last -= PLAIN_SECONDS - 5.0  # most evaluations are over by then
        else:
            self.note(f"{task} ...")

    def advance(self, amount: int) -> None:
        """Print the share done and the time left, every 30 seconds."""
        self._done += amount
        if self._due():
            rate = self._done / max(1e-9, time.monotonic() - self._began)
            remaining = max(0, self._total - self._done) / max(1e-9, rate)
            goal = f" of {self._total:,}, {clock_text(remaining)} left" if self._total else ""
            self.note(f"{self._task}: {self._done:,} {self._unit}{goal}, {rate:,.0f}/s")

    def end(self) -> None:
        """Restore the rhythm of the lines about steps; the first step is printed at once."""
        self._last = self._stepped

    def note(self, message: str) -> None:
        self._console.print(for_terminal(message), markup=False, soft_wrap=True)

    def step(self, standing: Callable[[], Standing]) -> None:
        """Print the progress of the run, every 30 seconds."""
        self._training = True
        if self._due():
            now = standing()
            time_left = "" if now.seconds_left is None else f", {clock_text(now.seconds_left)} left"
            step = f"step {now.step:,}/{now.steps:,} ({now.stage})"
            self.note(f"{step}: loss {now.loss:.3f}, {_figures(now)}{time_left}")
            self._stepped = self._last

    def _due(self) -> bool:
        if time.monotonic() - self._last < PLAIN_SECONDS:
            return False
        self._last = time.monotonic()
        return True


class _Left(progress.TimeRemainingColumn):
    """A column with the time left: the run's own estimate, else rich's from the pace."""

    def render(self, task: progress.Task) -> Text:
        time_left = task.fields.get("left")
        if not time_left:
            return super().render(task)
        return Text(f"{time_left} left", style="progress.remaining")


class Live(Display):
    """A display on a terminal: one progress bar."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = progress.Progress(
            progress.TextColumn("{task.description}"), progress.BarColumn(bar_width=24),
            progress.MofNCompleteColumn(), progress.TextColumn("{task.fields[figures]}"), _Left(),
            console=console, transient=True,
        )  # fmt: skip
        self._task: progress.TaskID | None = None
        self._training, self._last = False, -LIVE_SECONDS

    def begin(self, task: str, total: int, unit: str) -> None:
        self._start(f"{task} ({unit})", total or None)

    def advance(self, amount: int) -> None:
        if self._task is not None:
            self._progress.advance(self._task, amount)

    def end(self) -> None:
        """Remove the bar; the next step shows that of the run again."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task, self._training, self._last = None, False, -LIVE_SECONDS

    def note(self, message: str) -> None:
        self._progress.console.print(for_terminal(message), markup=False)

    def step(self, standing: Callable[[], Standing]) -> None:
        """Move the bar of the run, ten times a second at most."""
        if time.monotonic() - self._last < LIVE_SECONDS:
            return
        self._last = time.monotonic()
        now = standing()
        if not self._training:
            self._start(now.stage, now.steps, training=True)
        assert self._task is not None, "the bar was started above"
        self._progress.update(
            self._task, completed=now.step, description=now.stage,
            figures=f"loss {now.loss:.3f}  {_figures(now)}",
            left="" if now.seconds_left is None else clock_text(now.seconds_left),
        )  # fmt: skip

    def close(self) -> None:
        """Remove the bar and restore the terminal."""
        self._progress.stop()

    def _start(self, description: str, total: int | None, training: bool = False) -> None:
        self.end()
        self._training = training
        self._progress.start()
        self._task = self._progress.add_task(description, total=total, figures="")


def _figures(standing: Standing) -> str:
    return f"{standing.tokens_per_second:,.0f} tokens/s, {standing.memory_bytes / 2**30:.1f} GiB"


def clock_text(seconds: float) -> str:
    """Format seconds as "41 s", "5:03" or "2:05:03", from two days on as "3.25 days"."""
    if seconds >= 172_800:
        return duration_text(seconds)
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    minutes, rest = divmod(rounded, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
