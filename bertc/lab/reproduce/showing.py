"""A table's results next to the published figures: columns, claims, a picture."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bertc import CannotWriteError, UsageError, lab_api
from bertc.lab.reproduce.results import TableResults
from bertc.lab.reproduce.table import FIGURES, MASKED_LM, PAPERS, Measure, Scale, Table
from bertc.lab.results.groups import Summary
from bertc.lab.results.intervals import SPREAD, interval
from bertc.lab_api import several, units

CLAIM_COLUMNS = ["claim", "measure", "better > worse", "difference", "published", "seen"]


@dataclass(frozen=True)
class Shown:
    """A table with its results at a scale.

    ``left_out`` are names of runs that are not of the table as it is now.
    """

    table: Table
    results: TableResults
    left_out: tuple[str, ...] = ()

    def as_text(self, draw: Callable[..., object] = lab_api.Table) -> str:
        """Measured figures next to published ones, then each claim; ``draw`` makes the tables."""
        claims = self.claims()
        parts = [str(draw(*self._columns())), *self.notes()]
        return "\n\n".join([*parts, str(draw(CLAIM_COLUMNS, claims))] if claims else parts)

    def as_json(self) -> str:
        """The results as one JSON object, with each pair of the claims."""
        claims = {"claims": self._pairs(), "left_out": self.left_out}
        return json.dumps({"schema": 1, **asdict(self.results), **claims}, indent=1)

    def plot(self, path: Path, described: str = "") -> None:
        """A picture of each measure, SVG or PNG: ours with 95% intervals, and published figures."""
        measured = [measure for measure in self.table.measures if self._is_measured(measure)]
        if not measured:
            raise UsageError("nothing was measured yet", help="--scale tiny trains the rows")
        _save_picture(self, measured, path, described)

    def claims(self) -> list[list[str]]:
        """The paper's claims, pair by pair, with both differences and the verdict on each."""
        lines, before = list[list[str]](), ""
        for pair in self._pairs():
            half = f" ± {number_text(pair['half'])}" if pair["half"] is not None else ""
            differences = [_text(pair[of], "{:+.3g}".format) for of in ("difference", "published")]
            lines.append([
                pair["says"] if pair["says"] != before else "", pair["measure"],
                f"{pair['better']} > {pair['worse']}", differences[0] + half, differences[1],
                pair["verdict"],
            ])  # fmt: skip
            before = pair["says"]
        return lines

    def _pairs(self) -> list[dict[str, Any]]:
        return [pair for c in self.table.claims for pair in self.results.pairs(self.table, c)]

    def _columns(self) -> tuple[list[str], list[list[str]]]:
        """Ours of each figure and measure, if there are any, then the paper's."""
        rows = [(row, self.results.row(row.name)) for row in self.table.rows]
        columns = [("row", [row.name for row in self.table.rows])]
        texts = {"parameters": units.count_text, "flops": units.flops_text}
        texts |= {measure.name: number_text for measure in self.table.measures}
        for name, text in texts.items():
            if name in FIGURES:
                ours = [_text(result.figure(name), text) for _, result in rows]
            else:
                ours = [score_text(result.summary(name)) for _, result in rows]
            columns += [(name, ours)] * any(ours)
            # Published sizes and costs are of the full scale alone.
            if name not in FIGURES or self.results.scale == PAPERS:
                printed = [_text(row.published.get(name), text) for row, _ in rows]
                title = "published" if any(ours) else f"{name}, published"
                columns += [(title, printed)] * any(printed)
        lines = zip(*(cells for _, cells in columns), strict=True)
        return [title for title, _ in columns], [*map(list, lines)]

    def _is_measured(self, measure: Measure) -> bool:
        return any(measure.name in row.scores for row in self.results.rows)

    def notes(self) -> Iterator[str]:
        """Lines below the tables: seeds, time, what is missing or left out."""
        results = self.results
        seeds = max((len(v) for row in results.rows for v in row.scores.values()), default=0)
        if seeds:
            seconds = results.before + sum(row.seconds for row in results.rows)
            yield (
                f"{SPREAD if seeds > 1 else 'one seed'}; "
                f"{several(results.runs - results.missing, 'run')}, "
                f"{units.duration_text(seconds)} of training in all"
                f"{f', on {results.machine}' if results.machine else ''}"
            )
        if results.missing:
            plural = "s" * (len(results.seeds) > 1)
            of = f" of seed{plural} {', '.join(map(str, results.seeds))}" if results.seeds else ""
            yield f"{results.missing:,} of {several(results.runs, 'run')}{of} are not finished"
        for measure in self.table.measures:
            alike = [(row.name, row.same.get(measure.name)) for row in results.rows]
            rows = [f"{row} (seed {', '.join(map(str, of))})" for row, of in alike if of]
            if rows:
                yield f"{measure.name}: all examples got one answer in {', '.join(rows)}"
        for measure in filter(self._is_measured, self.table.measures):
            if measure.score.split(".")[-1] in MASKED_LM:
                which = "masked" if measure.name in results.masked else "all predicted"
                yield f"{measure.name}: of {which} positions"
        scales: Mapping[Any, Scale] = self.table.scales
        if has := scales[results.scale].arrangement:
            yield f"all rows at this scale: {has}"
        if seeds and results.arrangement != has:
            yield f"the runs above had {results.arrangement or 'the arrangement of the paper'}"
        if self.left_out:
            yield f"not of the table as it is now, and left out: {', '.join(self.left_out)}"


def _text(figure: float | None, text: Callable[[float], str]) -> str:
    return "" if figure is None else text(figure)


def score_text(summary: Summary | None) -> str:
    """A mean and half its 95% interval; empty without one."""
    if summary is None:
        return ""
    half = f" ± {number_text(interval(summary))}" if summary.runs > 1 else ""
    return f"{number_text(summary.mean)}{half}"


def number_text(value: float) -> str:
    """A score: two digits after the point, or three where it is small."""
    return f"{value:.2f}" if abs(value) >= 10 else f"{value:.3f}"


SHIFT = 0.12
"""Our scores are above the line of a row and published figures below, so that both are seen."""
OURS, PUBLISHED = "#1f77b4", "#d62728"


def _save_picture(shown: Shown, measures: Sequence[Measure], path: Path, described: str) -> None:
    """Draw the measures side by side; published figures have an axis of their own above.

    Sizes differ by orders of magnitude, so that only the order of rows can be compared.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    table, results, rows = shown.table, shown.results, [row.name for row in shown.table.rows]
    size = (2.2 + 3.6 * len(measures), 1.2 + 0.32 * len(rows))
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(1, len(measures), squeeze=False, sharey=True)[0]
    for axes, measure in zip(panels, measures, strict=True):
        summaries = [(y, results.row(row).summary(measure.name)) for y, row in enumerate(rows)]
        ours = [(y - SHIFT, summary) for y, summary in summaries if summary]
        axes.errorbar(
            [summary.mean for _, summary in ours], [y for y, _ in ours],
            xerr=[interval(summary) for _, summary in ours], fmt="o", color=OURS, capsize=3,
        )  # fmt: skip
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
