"""Results and estimates of a table next to the published figures: columns, claims and costs."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import bertc
from bertc import DataError, MissingInputError, SpecError, lab_api
from bertc.lab.reproduce.programs import Jobs
from bertc.lab.reproduce.results import TableResults
from bertc.lab.reproduce.table import FIGURES, MASKED_LM, PAPERS, Measure, Scale, Table
from bertc.lab.results.groups import SPREAD, Summary, interval
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


_COLUMNS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "name": ("row", str),
    "parameters": ("parameters", units.count_text),
    "published_parameters": ("published", units.count_text),
    "steps": ("steps", "{:,}".format),
    "flops": ("training FLOPs", units.flops_text),
    "published_flops": ("published", units.flops_text),
    "bytes": ("memory", units.bytes_text),
    "seconds": ("time", units.duration_text),
}
"""The figures of a row: title and text of each."""


@dataclass(frozen=True)
class Costs:
    """The estimates of a table's rows at a scale, and of runs that they begin with.

    Rows have the figures of ``_COLUMNS``, None if they depend on a run that does not exist yet:
    ``why``. ``basis`` is the source of the times, ``lacks`` has a line for each missing file.
    """

    table: str
    scale: str
    device: str
    rows: tuple[dict[str, Any], ...]
    lacks: tuple[str, ...]
    basis: str

    @property
    def is_sound(self) -> bool:
        """True if every row has an estimate."""
        return not any(row["why"] for row in self.rows)

    def as_table(self) -> str:
        """A line a row, then the files that are missing."""
        names = [name for name in _COLUMNS if any(row[name] is not None for row in self.rows)]
        rows = [[row[name] for name in names] for row in self.rows]
        head, units = zip(*(_COLUMNS[name] for name in names), strict=True)
        notes = [
            f"each once, on {self.device}, without the tasks that follow pretraining; without "
            "vocabulary or examples, rows of tasks count as full",
            *([self.basis] if self.basis else []),
            *(f"{row['name']}: {row['why']}" for row in self.rows if row["why"]),
        ]
        table = lab_api.Table(head, rows, units=units)
        return "\n".join((str(table), *notes, *self.lacks))

    def as_json(self) -> str:
        """The estimates as one JSON object."""
        return json.dumps({"schema": 1, **asdict(self)}, indent=1)


def costs_of(jobs: Jobs, device: str) -> Costs:
    """Estimate the first run of every row, and those that rows begin with."""
    table, rows, basis = jobs.table, list[dict[str, Any]](), ""
    published = {row.name: row.published for row in table.rows}
    runs = {f"before: {run.name}": jobs.before(run) for run in table.before} | jobs.firsts()
    for name, job in runs.items():
        row: dict[str, Any] = dict.fromkeys(_COLUMNS) | {"name": name, "why": ""}
        for figure in FIGURES:
            row[f"published_{figure}"] = published.get(name, {}).get(figure)
        rows.append(row)
        try:
            program = job.program()
            cost = bertc.estimate(program, device, table.convention)
        except SpecError as error:
            row["why"] = str(error).splitlines()[0]
        except (MissingInputError, DataError) as error:
            row["why"] = f"{error} (help: {error.help})"
        else:
            row |= {
                "parameters": cost.parameters.total, "steps": program.steps,
                "flops": cost.flops.train_total, "bytes": cost.memory.peak_bytes,
                "seconds": cost.time.seconds_total,
            }  # fmt: skip
            basis = " ".join(cost.time.basis.split())
    needed = {need for job in (*runs.values(), *jobs.all([1])) for need in job.lacks}
    lacks = tuple(line for need, line in jobs.files.missing.items() if need in needed)
    return Costs(table.name, jobs.name, device, tuple(rows), lacks, basis)
