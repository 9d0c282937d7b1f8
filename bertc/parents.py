"""The spec that a run extends, and what the run's other settings cost. Loads no torch."""

from pathlib import Path

from bertc.api import parse
from bertc.diagnostics import BertcError
from bertc.diff import COLUMNS, REFUSED, diff
from bertc.estimate.units import change_text
from bertc.report.spec import Parent
from bertc.runs.folder import RunFolder
from bertc.storage.plain_file import read_text
from bertc.syntax.read.scan import LARGEST_TEXT
from bertc.syntax.read.tree import Extends, String


def parent_of(run: Path) -> Parent | None:
    """The spec that a run extends, None if none; without rows where it is no longer there.

    Raises:
        MissingInputError, DataError, SpecError: if the run's own files cannot be read.
    """
    folder = RunFolder(run)
    tree = parse(read_text(folder.spec, 4 * LARGEST_TEXT))
    extended = [item.target for item in tree.items if isinstance(item, Extends)]
    if not extended:
        return None
    target = extended[0]
    name = target.value if isinstance(target, String) else target.text
    lock = folder.read_lock()
    device = "cpu" if lock is None or lock.plan.device == "cpu" else "h200"
    try:
        found = diff(name, str(run), device=device)
    except BertcError as error:
        return Parent(name, (), (), f"It cannot be compared: {error.message}.")
    first, _ = found.costs
    rows = []
    for line in found.lines:
        cells = (
            [change_text(of(line.alone), of(first)) for _, of, _ in COLUMNS] if line.alone else []
        )
        missing = [] if cells or line.follows else [REFUSED]
        rows.append((line.change.name, *line.change.texts(), *cells, *missing))
    return Parent(
        name, ("setting", "there", "here", *(c[0] for c in COLUMNS)), tuple(rows), found.note
    )
