"""The hand-over of a run's metrics to trackers while it trains."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path

from bertc.base.diagnostics import MissingInputError, UsageError
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.settings import Tracker
from bertc.run.records.metrics import Line

Send = Callable[[Line], None]
Say = Callable[[str], None]
Tracking = Callable[[Path, Resolved, int, Say], AbstractContextManager[Send]]
"""Opens the trackers of a program for its run in a folder, begun or resumed at a step."""


def refuse_untracked(trackers: Sequence[Tracker], tracking: Tracking | None) -> None:
    """Refuse trackers that cannot get the figures of a run, without loading any."""
    for tracker in trackers:
        if find_spec(tracker) is None:
            raise MissingInputError(
                f"{tracker} is not installed, which log={tracker} needs",
                help=f"pip install -c constraints.txt -e '.[{tracker}]'",
            )
    if trackers and not tracking:
        raise UsageError(
            f"log={trackers[0]} needs what feeds it",
            help="train(..., tracking=bertc.lab.trackers.sink.feeding)",
        )
