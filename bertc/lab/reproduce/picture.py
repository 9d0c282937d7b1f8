"""A picture of a table: each measure over its rows, ours next to the published figures."""

from collections.abc import Sequence
from pathlib import Path

from bertc import CannotWriteError
from bertc.lab.reproduce.results import TableResults
from bertc.lab.reproduce.table import Measure, Table
from bertc.lab.results.intervals import interval

SHIFT = 0.12
"""Our scores are above the line of a row and published figures below, so that both are seen."""
OURS, PUBLISHED = "#1f77b4", "#d62728"


def save_picture(
    table: Table, results: TableResults, measures: Sequence[Measure], path: Path, described: str
) -> None:
    """Draw the measures side by side; published figures have an axis of their own above.

    Sizes differ by orders of magnitude, so that only the order of rows can be compared.

    Raises:
        CannotWriteError: if the disk has no room.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    rows = [row.name for row in table.rows]
    size = (2.2 + 3.6 * len(measures), 1.2 + 0.32 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(measures), squeeze=False, sharey=True)[0]
    for axes, measure in zip(panels, measures, strict=True):
        summaries = [(y, results.row(row).summary(measure.name)) for y, row in enumerate(rows)]
        ours = [(y - SHIFT, summary) for y, summary in summaries if summary]
        axes.errorbar(
            [summary.mean for _, summary in ours],
            [y for y, _ in ours],
            xerr=[interval(summary) for _, summary in ours],
            fmt="o",
            color=OURS,
            capsize=3,
        )
        axes.set_xlabel(f"{measure.name}, at scale {results.scale}", color=OURS)
        published = [(row.published.get(measure.name), y) for y, row in enumerate(table.rows)]
        printed = [(figure, y + SHIFT) for figure, y in published if figure is not None]
        if printed:
            above = axes.twiny()
            above.plot(*zip(*printed, strict=True), "D", color=PUBLISHED, markersize=4)
            above.set_xlabel("published", color=PUBLISHED)
        axes.set_yticks(range(len(rows)), rows)
        axes.grid(alpha=0.3)
        axes.margins(y=0.2)
    panels[0].invert_yaxis()
    kind = "svg" if path.suffix.lower() == ".svg" else "png"
    metadata = {"Description": described} | ({"Date": None} if kind == "svg" else {})
    try:
        with rc_context({"svg.hashsalt": "bertc", "svg.fonttype": "none"}):  # always the same file
            figure.savefig(path, format=kind, metadata=metadata)
    except OSError as error:
        raise CannotWriteError(
            f"cannot write {path}: {error.strerror}", help="make room, or name another file"
        ) from error
