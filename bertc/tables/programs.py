"""The runs of a table at a scale: specs with their overrides, and what each waits for."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from string import Template
from typing import cast

from bertc.api import compile_spec, points
from bertc.diagnostics import (
    BertcError,
    Diagnostics,
    SpecError,
    UsageError,
    listed,
)
from bertc.estimate import Convention, Estimate, estimate
from bertc.external import row_lengths
from bertc.ir.program.resolved import Resolved
from bertc.storage.paths import is_taken
from bertc.syntax.write.show import quoted
from bertc.tables.files import Files
from bertc.tables.job import Job, TableText
from bertc.tables.shrinking import Factors, factors, no_larger, sets_steps, shrunk, steps_of
from bertc.tables.table import (
    PRETRAINING,
    Before,
    Measure,
    Need,
    Row,
    Scale,
    Table,
    is_whole,
    path_name,
)

BEFORE = "before"
LENGTHS = ("seq", "memory", "clamp", "sliding", "stride")
"""Options of evaluations that a scale multiplies as it does the length of rows."""


class Jobs:
    """The runs of a table at a scale, for seeds, in a folder.

    ``steps`` are those of rows that are trained for an equal budget. ``sketched``: for estimates,
    with what stands for runs before: a table's own text, else their programs in ``stand_ins``, as
    far as those are there, else a teacher without weights.
    """

    def __init__(
        self,
        table: Table,
        scale: str,
        files: Files,
        out: Path,
        steps: Mapping[str, int] | None = None,
        sketched: bool = False,
        stand_ins: Path | None = None,
    ) -> None:
        if scale not in table.scales:
            raise UsageError(
                f"{table.name} has no scale {scale[:60]}", help=f"--scale {listed(table.scales)}"
            )
        self.table, self.name, self.files, self.out = table, scale, files, out
        self.scale: Scale = table.scales[scale]  # type: ignore[index]
        self.steps, self.sketched, self.stand_ins = steps or {}, sketched, stand_ins
        self._known_sizes = dict[TableText, Mapping[str, float]]()

    def all(self, seeds: Sequence[int]) -> list[Job]:
        """All of them, in an order in which each stands after those it waits for."""
        before = [self.before(each) for each in self.table.before]
        return [
            *before,
            *(job for seed in seeds for row in self.table.rows for job in self.of(row, seed)),
        ]

    def before(self, each: Before) -> Job:
        """The job of a run that rows begin with or learn from."""
        return self._job(f"{BEFORE}/{each.name}", "", "", 1, *self._before_text(each))

    def _before_text(self, each: Before) -> tuple[TableText, list[TableText]]:
        """Its spec at this scale, and settings instead of its own."""
        place = f"before.{each.name}"
        text = TableText(each.spec, f"{place}.spec")
        if self.name not in each.at:
            return text, [self._of_scale(text) if each.pretraining else self._of_tasks()]
        at = TableText(each.at[self.name], f"{place}.at.{self.name}")
        return (at, []) if is_whole(at.text) else (text, [at])

    def of(self, row: Row, seed: int) -> Iterator[Job]:
        """The jobs of a row with a seed: its own run, then tasks and evaluations."""
        folder = f"{path_name(row.name)}/seed-{seed}"
        main = f"{folder}/{PRETRAINING}"
        if self.table.pretrains:
            yield self._main(row, seed, main)
        for measure in self.table.measures:
            if not measure.is_taken(row.name, self.name):
                continue
            if measure.eval:
                yield self._evaluation(measure, row, seed, folder, main)
            elif measure.spec:
                yield self._task(measure, row, seed, folder, main)

    def _main(self, row: Row, seed: int, name: str) -> Job:
        text = TableText(self.table.spec, "spec")
        if row.is_whole:
            text = TableText(row.spec, f"rows.{row.name}.spec")
        own, told = [self._of_scale(text), *self._settings(row)], False
        if is_whole(row.at.get(self.name, "")):
            text, own, told = self._at(row), [], True
        if row.name in self.steps:
            own.append(TableText(f"steps={self.steps[row.name]}", f"equal {self.table.equal}"))
        share = 1 if told or any(sets_steps(text) for text, _ in own) else self.scale.steps or 1
        return replace(self._job(name, row.name, "", seed, text, own), share=share)

    def _evaluation(self, measure: Measure, row: Row, seed: int, folder: str, main: str) -> Job:
        run = f"{folder}/{path_name(measure.of)}" if measure.of else main
        name = f"{folder}/{path_name(measure.name)}"
        task, data = (
            TableText(str(measure.eval.get(option, "")), f"measures.{measure.name}.eval.{option}")
            for option in ("task", "data")
        )
        filled = self._job(name, row.name, measure.name, seed, task, [data])
        options = {
            name: self._lengthened(value) if name in LENGTHS else value
            for name, value in cast("Mapping[str, int | bool | str]", measure.eval).items()
        }
        if task.text:
            options["task"] = filled.text
        if data.text:
            (text, _) = filled.overrides
            options["data"] = f"files({text})" if text.startswith(("'", '"')) else text
        return replace(filled, text="", overrides=(), after=(run,), eval=options)

    def _lengthened(self, tokens: int | bool | str) -> int:
        return max(1, round(int(tokens) * self.factors["seq"])) if tokens else 0  # 0: not asked

    def _task(self, measure: Measure, row: Row, seed: int, folder: str, main: str) -> Job:
        name = f"{folder}/{path_name(measure.name)}"
        settings = [] if self.table.pretrains else self._settings(row)
        own = [self._of_tasks(), *settings]
        text = TableText(measure.spec, f"measures.{measure.name}.spec")
        if measure.name in row.tasks:
            text = TableText(row.tasks[measure.name], f"rows.{row.name}.tasks.{measure.name}")
        return self._job(name, row.name, measure.name, seed, text, own, main)

    @cached_property
    def factors(self) -> Factors:
        """The factors by which numbers of rows shrink."""
        return factors(self.scale, self._sizes(TableText(self.table.spec, "spec")))

    def _sizes(self, text: TableText) -> Mapping[str, float]:
        """Sizes and steps of a spec as it is written; none if another run has to be there first."""
        if text not in self._known_sizes:
            self._known_sizes[text] = self._sized(text) if text.text else {}
        return self._known_sizes[text]

    def _sized(self, text: TableText) -> Mapping[str, float]:
        job = self._job(PRETRAINING, "", "", 1, text, [])
        with suppress(SpecError, BertcError):  # it has no size before another run is there
            full = job.program()
            (settings, *_) = compile_spec(job.text, job.overrides, Diagnostics())
            last = settings.stages[-1]
            sizes = {name: getattr(last, name) for name in ("hidden", "layers", "seq", "batch")}
            steps = [steps_of(row.spec) for row in self.table.rows if not row.is_whole]
            told = [each for each in steps if each]
            # Where no spec but every row says its steps, a row is compared with the longest.
            unsaid = text.place == "spec" and settings.origins["steps"].kind == "default"
            longest = max(told) if unsaid and told and len(told) == len(steps) else full.steps
            return {**sizes, "steps": longest}
        return {}

    def _settings(self, row: Row) -> list[TableText]:
        """The settings of a row at this scale."""
        if self.name in row.at:
            return [self._at(row)]
        text = "" if row.is_whole else shrunk(row.spec, self.factors, self.scale.rates)
        return [TableText(text, f"rows.{row.name}.spec")]

    def _at(self, row: Row) -> TableText:
        return TableText(row.at[self.name], f"rows.{row.name}.at.{self.name}")

    def _of_scale(self, text: TableText) -> TableText:
        """Settings of the scale for a spec that pretrains; the usual scales make nothing larger."""
        own = self.name in self.table.own_scales
        spec = self.scale.spec if own else no_larger(self.scale.spec, self._sizes(text))
        return TableText(f"{spec} {self.scale.arrangement}", f"scales.{self.name}.spec")

    def _of_tasks(self) -> TableText:
        return TableText(self.scale.tasks, f"scales.{self.name}.tasks")

    def _job(
        self,
        name: str,
        row: str,
        measure: str,
        seed: int,
        text: TableText,
        own: list[TableText],
        main: str = "",
    ) -> Job:
        texts = [
            text,
            *(each for each in own if each.text.strip()),
            TableText(f"seed={seed}", "seed"),
        ]
        names = {found for each in texts for found in _names(each.text)}
        before = {each.name: f"{BEFORE}/{each.name}" for each in self.table.before}
        after = [before[each] for each in sorted(names & {*before})]
        lacks = [each for each in self.table.needs if each in names and self._lacks(each)]
        values = {each: self._given(each, need) for each, need in self.table.needs.items()}
        named = [each.name in names for each in self.table.before]
        for known in self.table.before[: len(named) - [*reversed(named), True].index(True)]:
            # Those that a named one may begin with stand before it.
            path = quoted(str(self.out / before[known.name]))
            values[known.name] = self._sketch(known, values) if self.sketched else path
        if main:
            values["run"] = quoted(str(self.out / main))
            after += [main] * ("run" in names)
        first, *others = (Template(each.text).safe_substitute(values) for each in texts)
        places = tuple(each.place for each in texts)
        return Job(
            self.table.file, self.out, name, row, measure, seed, first, (*others,), places,
            (*after,), (*lacks,),
        )  # fmt: skip

    def _sketch(self, known: Before, values: Mapping[str, str]) -> str:
        """The text for a run before."""
        program = self.stand_ins and self.stand_ins / BEFORE / known.name
        if program and is_taken(program) and not known.sketch:
            return quoted(str(program))
        if known.sketch:
            there = (each for each in known.sketch if not any(map(self._lacks, _names(each))))
            return Template(next(there, known.sketch[-1])).safe_substitute(values)
        text, settings = self._before_text(known)
        whole = " ".join(each.text for each in (text, *settings))
        return f"spec({quoted(Template(whole).safe_substitute(values))})"

    def _lacks(self, name: str) -> bool:
        need = self.table.needs.get(name)
        return need is not None and not (need.otherwise or self.files.there(name, need))

    def _given(self, name: str, need: Need) -> str:
        stand_in = need.otherwise or need.sketch
        if stand_in and not self.files.there(name, need):
            return stand_in
        path = quoted(str(self.files.of(name, need)))
        return Template(need.given).safe_substitute(path=path)


def with_equal_steps(jobs: Jobs, device: str) -> dict[str, int]:
    """Steps by row that take as many FLOPs, or as long, as the first row; empty for equal steps.

    A time is that on a named device.
    """
    table = jobs.table
    if table.equal == "steps" or not table.pretrains:
        return {}
    found = dict[str, int]()
    budget = ""
    for row in table.rows:
        (job, *_) = jobs.of(row, 1)
        if budget:
            overrides = (*job.overrides, f"steps={budget}")
            with job.told():
                (resolved,) = points(job.text, overrides, Diagnostics())
        else:
            resolved = job.program()
            told = estimated(resolved, device)
            hours = told.time.seconds_total / 3600
            budget = (
                f"equal({told.flops.train_total:.8g} flops)"
                if table.equal == "flops"
                else f"equal({hours:.8g} h, device={quoted(device)})"
            )
        found[row.name] = resolved.steps
    return found


def estimated(resolved: Resolved, device: str, convention: Convention = "exact") -> Estimate:
    """The estimate of a run."""
    (lengths,) = row_lengths([resolved])
    return estimate(resolved, device, convention, lengths=lengths)


def _names(text: str) -> set[str]:
    """The names that stand as ``$name`` in a text."""
    return {*Template(text).get_identifiers()}
