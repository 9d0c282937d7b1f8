"""Grids: train each point in its own run folder, one after another."""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bertc.base.diagnostics import BertcError, CannotWriteError, StoppedError, UsageError
from bertc.ir.program import Resolved
from bertc.machine.process_group import world_here
from bertc.run.records.changes import POINT, values_of
from bertc.run.records.folder import RunFolder
from bertc.run.records.metrics import Tracking
from bertc.run.train.loop import train
from bertc.run.train.report import Report

LONGEST_NAME = 100
PLAIN = re.compile(r"[\w.=+%, ()-]*", re.ASCII)
"""Point names that folder names spell without loss; others get a hash."""


def train_grid(
    points: Sequence[Resolved],
    parent: Path,
    *,
    spec_text: str,
    resume: bool,
    say: Callable[[str], None],
    tracking: Tracking | None = None,
) -> Iterator[Report | BertcError]:
    """Train every unfinished point of a grid; yield its report, or the error of one that failed."""
    if world_here()[1].size > 1:
        message = "a grid is trained in one process"
        raise UsageError(message, "train its points by themselves, with --set")
    runs = {parent / folder_name(point.name): point for point in points}
    for path, point in runs.items():
        RunFolder(path).admit(point, resume)
    for number, (path, point) in enumerate(runs.items(), 1):
        place = f"point {number} of {len(runs)}, {point.name}"
        if RunFolder(path).is_finished(point):
            say(f"{place}: finished")
            continue
        say(f"{place}:")
        text = f"{spec_text}\n{POINT}{point.name}\n"
        try:
            yield train(point, path, spec_text=text, resume=resume, tracking=tracking)
        except (StoppedError, CannotWriteError):
            raise
        except BertcError as error:
            yield error


def folder_name(point: str) -> str:
    """The folder name of a point: its settings without characters special to shells or paths."""
    parts = values_of(point)
    tidy = (re.sub(r"[^\w.=+%-]+", "-", part, flags=re.ASCII).strip("-") for part in parts)
    name = ",".join(tidy)
    if PLAIN.fullmatch(point) and len(name) <= LONGEST_NAME:
        return name
    return f"{name[:LONGEST_NAME]}-{hashlib.sha256(point.encode()).hexdigest()[:6]}"
