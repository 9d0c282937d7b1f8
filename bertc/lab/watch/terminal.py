"""``bertc watch``: follow a run in the terminal until it ends."""

import time
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from bertc.lab.watch.view import RunView, look
from bertc.lab_api import RunFolder, escaped

LOOK_SECONDS = 2.0
"""Seconds between two looks at the files."""
SHARE_OF_A_CORE = 0.0025
"""Most of a core that is spent on drawing."""
LINE_SECONDS = 30.0
"""Seconds between two lines where nothing is drawn."""


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
