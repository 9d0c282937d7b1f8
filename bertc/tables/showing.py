"""A table's results beside the published figures: columns, claims, a picture."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bertc.diagnostics import UsageError, listed, several
from bertc.estimate.units import count_text, duration_text, flops_text
from bertc.ir.learning.objective import MASKED_LM, titled
from bertc.ir.terms.positions import by_kind
from bertc.runs.groups import Summary
from bertc.runs.intervals import SPREAD, interval
from bertc.tables.drawing import drawn, markdown
from bertc.tables.results import ClaimedPair, RowResult, TableResults
from bertc.tables.table import FIGURES, PAPERS, Measure, Scale, Table

CLAIM_COLUMNS = ["claim", "measure", "better > worse", "difference", "published", "seen"]


@dataclass(frozen=True)
class Shown:
    """A table with its results at a scale."""

    table: Table
    results: TableResults
    changed: tuple[str, ...] = ()
    """Lines about runs that are not of the table as it is now."""

    def as_text(self) -> str:
        """Measured figures beside published ones, then each claim."""
        return self._joined(drawn)

    def as_json(self) -> str:
        """The results as one JSON object, with each pair of the claims."""
        pairs = [
            {"says": claim.says, "measure": claim.measure, **asdict(pair)}
            for claim in self.table.claims
            for pair in self.results.pairs(self.table, claim)
        ]
        found = {**json.loads(self.results.as_json()), "claims": pairs}
        return json.dumps(found | ({"changed": self.changed} if self.changed else {}), indent=1)

    def as_markdown(self) -> str:
        """Measured figures beside published ones as Markdown, then each claim."""
        return self._joined(markdown)

    def _joined(self, as_table: Callable[[list[str], list[list[str]]], str]) -> str:
        claims = self.claims()
        parts = [as_table(*self._columns()), *self._notes()]
        return "\n\n".join([*parts, as_table(CLAIM_COLUMNS, claims)] if claims else parts)

    def plot(self, path: Path, described: str = "") -> None:
        """A picture of each measure: ours with 95% intervals, and the published figures.

        ``described`` is kept in the file, an SVG or a PNG.

        Raises:
            UsageError: if nothing was measured.
            CannotWriteError: if the disk has no room.
        """
        from bertc.tables.picture import save_picture

        measured = [m for m in self.table.measures if self._is_measured(m)]
        if not measured:
            raise UsageError("nothing was measured yet", help="--scale tiny trains the rows")
        save_picture(self.table, self.results, measured, path, described)

    def _columns(self) -> tuple[list[str], list[list[str]]]:
        measures = [m for m in self.table.measures if self._is_measured(m) or self._printed(m.name)]
        head, columns = ["row"], [[row.name for row in self.table.rows]]
        rows = [self.results.row(row.name) for row in self.table.rows]
        for name, text in (("parameters", count_text), ("flops", flops_text)):
            self._add(head, columns, name, [_figure(row, name, text) for row in rows], text)
        for measure in measures:
            cells = [cell(row.summary(measure.name)) for row in rows]
            self._add(head, columns, measure.name, cells, number_text)
        return head, [list(line) for line in zip(*columns, strict=True)]

    def _add(
        self,
        head: list[str],
        columns: list[list[str]],
        name: str,
        ours: list[str],
        text: Callable[[float], str],
    ) -> None:
        if any(ours):
            head.append(name)
            columns.append(ours)
        if self._printed(name):
            head.append(f"{name}, published" if not any(ours) else "published")
            printed = [row.published.get(name) for row in self.table.rows]
            columns.append(["" if value is None else text(value) for value in printed])

    def _is_measured(self, measure: Measure) -> bool:
        return any(measure.name in row.scores for row in self.results.rows)

    def _printed(self, name: str) -> bool:
        """True if the paper has figures; those of size and cost are of the full scale alone."""
        if name in FIGURES and self.results.scale != PAPERS:
            return False
        return any(name in row.published for row in self.table.rows)

    def _notes(self) -> list[str]:
        seeds = max((len(v) for r in self.results.rows for v in r.scores.values()), default=0)
        seconds = self.results.before + sum(row.seconds for row in self.results.rows)
        notes = []
        if seeds:
            runs = self.results.runs - self.results.missing
            said = f"{several(runs, 'run')}, {duration_text(seconds)} of training in all"
            spread = SPREAD if seeds > 1 else "one seed"
            machine = f", on {self.results.machine}" if self.results.machine else ""
            notes.append(f"{spread}; {said}{machine}")
        if self.results.missing:
            notes.append(
                f"{self.results.missing:,} of {several(self.results.runs, 'run')}"
                f"{seeds_text(self.results.seeds)} are not finished"
            )
        for measure in self.table.measures:
            same = [(r.name, r.same.get(measure.name)) for r in self.results.rows]
            rows = [f"{row} (seed {', '.join(map(str, of))})" for row, of in same if of]
            if rows:
                notes.append(f"{measure.name}: all examples got one answer in {', '.join(rows)}")
        for measure in filter(self._is_measured, self.table.measures):
            if (name := measure.score.split(".")[-1]) in MASKED_LM:
                name = by_kind(name)[0] if measure.name in self.results.masked else name
                notes.append(f"{measure.name}: of {titled(name).partition(', ')[2]} positions")
        scales: Mapping[Any, Scale] = self.table.scales
        had, has = self.results.arrangement, scales[self.results.scale].arrangement
        notes += [f"all rows at this scale: {has}"] * bool(has)
        if seeds and had != has:
            notes.append(f"the runs above had {had or 'the arrangement of the paper'}")
        return [*notes, *self.changed]

    def claims(self) -> list[list[str]]:
        """The paper's claims, pair by pair, with both differences and what was seen of each."""
        lines, before = list[list[str]](), ""
        for claim in self.table.claims:
            for pair in self.results.pairs(self.table, claim):
                said = "" if claim.says == before else claim.says
                before = claim.says
                order = f"{pair.better} > {pair.worse}"
                printed = "" if pair.published is None else f"{pair.published:+.3g}"
                line = [said, claim.measure, order, _difference(pair), printed, pair.verdict]
                lines.append(line)
        return lines


def seeds_text(seeds: Sequence[int]) -> str:
    """The seeds of runs that are counted, `` of seeds 1, 2``; empty if they were not kept."""
    of = f" of seed{'s' * (len(seeds) > 1)} {listed(map(str, seeds))}"
    return of if seeds else ""


def _difference(pair: ClaimedPair) -> str:
    if pair.difference is None:
        return ""
    half = "" if pair.half is None else f" ± {number_text(pair.half)}"
    return f"{pair.difference:+.3g}{half}"


def _figure(row: RowResult, name: str, text: Callable[[float], str]) -> str:
    value = row.figure(name)
    return "" if value is None else text(value)


def cell(summary: Summary | None) -> str:
    """A mean and half its 95% interval; empty without one."""
    if summary is None:
        return ""
    half = f" ± {number_text(interval(summary))}" if summary.runs > 1 else ""
    return f"{number_text(summary.mean)}{half}"


def number_text(value: float) -> str:
    """A score: two digits after the point, or three where it is small."""
    return f"{value:.2f}" if abs(value) >= 10 else f"{value:.3f}"
