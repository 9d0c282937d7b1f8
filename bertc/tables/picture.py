"""A picture of a table: each measure over its rows, ours beside the published figures."""

from collections.abc import Sequence
from pathlib import Path

from bertc.runs.intervals import interval
from bertc.runs.plot import save
from bertc.tables.results import TableResults
from bertc.tables.table import Measure, Table

ROW_HEIGHT, HEIGHT, _WIDTH = 0.32, 1.2, 3.6
SHIFT = 0.12
"""Ours stand above the line of a row and published figures below, so that both are seen."""
OURS, PUBLISHED = "#1f77b4", "#d62728"


def save_picture(
    table: Table,
    results: TableResults,
    measures: Sequence[Measure],
    path: Path,
    described: str = "",
) -> None:
    """Draw the measures side by side; published figures have an axis of their own above.

    Sizes differ by orders of magnitude, so that only the order of rows can be compared.

    Raises:
        CannotWriteError: if the disk has no room.
    """
    from matplotlib.figure import Figure

    rows = [row.name for row in table.rows]
    figure = Figure(
        figsize=(2.2 + _WIDTH * len(measures), HEIGHT + ROW_HEIGHT * len(rows)),
        layout="constrained",
    )
    panels = figure.subplots(1, len(measures), squeeze=False, sharey=True)[0]
    for axes, measure in zip(panels, measures, strict=True):
        there = [
            (place, results.row(name).summary(measure.name)) for place, name in enumerate(rows)
        ]
        ours = [(place, summary) for place, summary in there if summary]
        axes.errorbar(
            [summary.mean for _, summary in ours],
            [place - SHIFT for place, _ in ours],
            xerr=[interval(summary) for _, summary in ours],
            fmt="o",
            color=OURS,
            capsize=3,
        )
        axes.set_xlabel(f"{measure.name}, at scale {results.scale}", color=OURS)
        printed = [
            (row.published[measure.name], place + SHIFT)
            for place, row in enumerate(table.rows)
            if measure.name in row.published
        ]
        if printed:
            above = axes.twiny()
            above.plot(*zip(*printed, strict=True), "D", color=PUBLISHED, markersize=4)
            above.set_xlabel("published", color=PUBLISHED)
        axes.set_yticks(range(len(rows)), rows)
        axes.grid(alpha=0.3)
        axes.margins(y=0.2)
    panels[0].invert_yaxis()
    save(figure, path, described=described)
