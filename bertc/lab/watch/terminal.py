"""``bertc watch``: a run as it is shown, in the terminal, until it ends."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bertc import Resolved
from bertc.lab.results.curves import flops_until
from bertc.lab.results.figures import LineFigures, figures
from bertc.lab.results.state import last_sign, state_of
from bertc.lab_api import RunFolder, escaped, shown_figures, units

LOOK_SECONDS = 2.0
"""Seconds between two looks at the files."""
SHARE_OF_A_CORE = 0.0025
"""Most of a core that is spent on drawing."""
LINE_SECONDS = 30.0
"""Seconds between two lines where nothing is drawn."""
QUIET_SECONDS = 120.0
"""Seconds without a new figure after which a reader should know."""
LATEST = (
    ("loss", "train/loss", ".4g"), ("rate", "train/lr", ".3g"),
    ("tokens/s", "train/tokens_per_second", ",.0f"),
)  # fmt: skip
RECENT = 10
"""Lines of metrics whose speed counts as the present one."""


@dataclass(frozen=True)
class RunView:
    """A run at a moment. ``seconds_left`` is by FLOPs and the present speed; None if unknown."""

    folder: Path
    state: str
    step: int
    steps: int
    points: Sequence[LineFigures]
    seconds: float
    seconds_left: float | None
    silent_seconds: float

    @property
    def over(self) -> bool:
        """True if nothing more will come."""
        return self.state != "training"

    def last(self, kind: str) -> LineFigures | None:
        """The last line of training, or of an evaluation; None before the first."""
        return next((point for point in reversed(self.points) if point.kind == kind), None)

    def line(self) -> str:
        """The run in one line, for logs and pipes."""
        parts = [f"{self.state}, step {self.step:,} of {self.steps:,}"]
        parts += [f"stage {escaped(point.stage)}" for point in self.points[-1:]]
        values = latest.values if (latest := self.last("train")) else {}
        for title, name, form in LATEST:
            if name in values:
                parts.append(f"{title} {values[name]:{form}}")
        parts += [f"{units.duration_text(self.seconds)} so far"] if self.seconds else []
        if self.seconds_left is not None and not self.over:
            parts.append(f"about {units.duration_text(self.seconds_left)} left")
        if self.silent_seconds > QUIET_SECONDS and not self.over:
            parts.append(f"no new figure for {units.duration_text(self.silent_seconds)}")
        return f"{escaped(str(self.folder))}: {', '.join(parts)}"

    def evaluation_line(self) -> str:
        """The last evaluation in one line; "" before the first."""
        if not (evaluation := self.last("eval")):
            return ""
        values = evaluation.values
        names = [name for name in shown_figures(values) if name != "eval/unigram_loss"]
        figures = (f"{escaped(n.removeprefix('eval/'))} {values[n]:.4g}" for n in names)
        return f"evaluation at step {evaluation.step:,}: {', '.join(figures)}"

    def picture(self, width: int) -> RenderableType:
        """The run as a screen of ``width`` characters: a bar, and a line a figure."""
        evaluation, masked = self.last("eval"), "eval/loss_masked"
        held_out = masked if evaluation and masked in evaluation.values else "eval/loss"
        rows = Table.grid(padding=(0, 1))
        for title, name, style in (
            ("training loss", "train/loss", "cyan"),
            ("held-out loss", held_out, "yellow"),
            ("learning rate", "train/lr", "green"),
            ("tokens a second", "train/tokens_per_second", "magenta"),
        ):
            if values := [p.values[name] for p in self.points if name in p.values]:
                bars = Text(sparkline(values, max(10, width - 44)), style=style)
                rows.add_row(title, bars, f"{values[0]:.4g} to {values[-1]:.4g}")
        bar = ProgressBar(total=max(1, self.steps), completed=self.step, width=width)
        return Group(Text(self.line()), bar, rows, Text(self.evaluation_line()))


BAR_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int) -> str:
    """Values as blocks from the lowest to the highest, the last of each of ``width`` parts."""
    every = max(1, -(-len(values) // width))
    last = [values[min(start + every, len(values)) - 1] for start in range(0, len(values), every)]
    low, high = min(last), max(last)
    scale = (len(BAR_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(BAR_BLOCKS[round((value - low) * scale)] for value in last)


def look(folder: Path) -> RunView:
    """A run as it is now."""
    run = RunFolder(folder)
    resolved, points = run.read_resolved(), [*figures(run.follow())]
    step, seconds = (points[-1].step, points[-1].seconds) if points else (0, 0.0)
    if run.saved_step > step and (counted := run.counted_until(run.saved_step)):
        step, seconds = run.saved_step, counted[1]
    return RunView(
        folder=run.path, state=state_of(run, resolved), step=step,
        steps=resolved.steps_by(step, seconds), points=points, seconds=seconds,
        seconds_left=_seconds_left(resolved, points), silent_seconds=time.time() - last_sign(run),
    )  # fmt: skip


def _seconds_left(resolved: Resolved, points: Sequence[LineFigures]) -> float | None:
    """The FLOPs that are left at the present speed, evaluations between included."""
    if len(points) < 2:
        return None
    if most := resolved.run.most_seconds:
        return max(0.0, most - points[-1].seconds)
    # Of full rows: what is left is a share, and it takes milliseconds.
    flops = flops_until(resolved, {})
    before, last = points[max(0, len(points) - RECENT)], points[-1]
    done = flops(last.step)
    recently = done - flops(before.step)
    if recently <= 0 or last.seconds <= before.seconds:
        return None
    return (flops(resolved.steps) - done) * (last.seconds - before.seconds) / recently


def show_once(folder: Path, console: Console) -> None:
    """Show how a run stands: a picture on a terminal, else lines."""
    _print(look(folder), console)


def wait_for(folder: Path, console: Console) -> None:
    """Wait until there is a run in the folder."""
    if not RunFolder(folder).holds_a_run:
        console.print(f"waiting for a run in {escaped(str(folder))}", markup=False, soft_wrap=True)
    while not RunFolder(folder).holds_a_run:
        time.sleep(LOOK_SECONDS)


def watch(folder: Path, console: Console) -> None:
    """Follow a run until it ends."""
    if console.is_terminal:
        _draw(folder, console)
    else:
        _tell(folder, console)


def _draw(folder: Path, console: Console) -> None:
    """Draw the run again and again, as often as takes a small share of a core."""
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while True:
            began = time.process_time()
            view = look(folder)
            live.update(view.picture(console.width), refresh=True)
            if view.over:
                break
            time.sleep(max(LOOK_SECONDS, (time.process_time() - began) / SHARE_OF_A_CORE))
    _print(view, console)


def _tell(folder: Path, console: Console) -> None:
    """Print how it stands every 30 seconds."""
    printed = -LINE_SECONDS
    while not (view := look(folder)).over:
        if time.monotonic() - printed >= LINE_SECONDS:
            _print(view, console)
            printed = time.monotonic()
        time.sleep(LOOK_SECONDS)
    _print(view, console)


def _print(view: RunView, console: Console) -> None:
    if console.is_terminal:
        console.print(view.picture(console.width))
        return
    for line in filter(None, (view.line(), view.evaluation_line())):
        console.print(Text(line), soft_wrap=True)
