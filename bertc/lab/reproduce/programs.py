"""The runs of a table at a scale: specs with overrides, smaller sizes, what each waits for."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from string import Template

import bertc
from bertc import BertcError, UsageError
from bertc.lab.reproduce.files import Files
from bertc.lab.reproduce.job import Job
from bertc.lab.reproduce.table import PRETRAINING, Before, Measure, Row, Table, is_whole, path_name
from bertc.lab_api import quote

_WIDTH = 8
"""Shrunk widths are multiples of it."""
SHRUNK: Mapping[str, str] = {
    "hidden": "widths", "embedding": "widths", "ffn": "widths", "layers": "layers",
    "seq": "seq", "memory": "seq", "batch": "batch", "steps": "steps",
}  # fmt: skip
"""Settings of rows that a scale multiplies, and by which of its factors."""
_SHORT = {"H": "hidden", "E": "embedding", "F": "ffn", "L": "layers", "S": "seq", "B": "batch"}
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20}
_NUMBER = re.compile(r"(?<!\S)(\w+)=([\d.]+(?:e\d+)?)(k|G|[KM]i|M|)(?!\S)")
_INSIDE = re.compile(r"\"[^\"]*\"|'[^']*'|\([^()]*\)|\[[^][]*\]|\{[^{}]*\}")
"""Quotes, and the innermost brackets."""
Factors = Mapping[str, float]


def steps_of(text: str) -> float | None:
    """The number of steps that settings say, None if they say none."""
    return next((value for name, value, _ in _numbers(text) if name == "steps"), None)


def shrunk(text: str, by: Factors) -> str:
    """A row's settings times factors: widths in multiples of 8, the rest whole, at least 1."""
    for name, value, where in reversed([*_numbers(text)]):
        if name in SHRUNK and value and by[SHRUNK[name]] != 1:
            unit = _WIDTH if SHRUNK[name] == "widths" else 1
            new = unit * max(1, round(value * by[SHRUNK[name]] / unit))
            text = f"{text[: where.start(2)]}{new}{text[where.end() :]}"
    return text


def sets(text: str, *names: str) -> bool:
    """True if a text has one of these settings."""
    return any(re.search(rf"(?<!\S){name}\s*=", _outside(text)) for name in names)


def _numbers(text: str) -> Iterator[tuple[str, float, re.Match[str]]]:
    """The settings of a text that are plain numbers, by their full names, and where they are."""
    for match in _NUMBER.finditer(_outside(text)):
        name, number, unit = match.groups()
        yield _SHORT.get(name, name), float(number) * _UNITS[unit], match


def _outside(text: str) -> str:
    """A text of the same length with blanks in place of quotes and brackets."""
    count = 1
    while count:
        text, count = _INSIDE.subn(lambda inside: "_" * len(inside[0]), text)
    return text


BEFORE = "before"
LENGTHS = ("seq", "memory", "clamp", "sliding", "stride")
"""Options of evaluations that a scale multiplies as it does the length of rows."""


class Jobs:
    """The runs of a table at a scale, for seeds, in a folder.

    ``steps`` are those of rows that are trained for an equal budget. ``sketched``: for estimates,
    with the sketches of runs before in place of their folders.
    """

    def __init__(
        self, table: Table, scale: str, files: Files, out: Path, sketched: bool = False
    ) -> None:
        if scale not in table.scales:
            known = ", ".join(table.scales)
            raise UsageError(f"{table.name} has no scale {scale[:60]}", help=f"--scale {known}")
        self.table, self.name, self.files, self.out = table, scale, files, out
        self.scale = table.scales[scale]  # type: ignore[index]
        self.sketched, self.steps = sketched, dict[str, int]()
        self.usual = f"{self.scale.spec} {self.scale.arrangement}"
        self.sizes = cache(self._sizes_of)

    def all(self, seeds: Sequence[int]) -> list[Job]:
        """All of them, each after those that it waits for."""
        jobs = [self.before(run) for run in self.table.before]
        for seed in seeds:
            for row in self.table.rows:
                jobs += self.of(row, seed)
        return jobs

    def firsts(self) -> dict[str, Job]:
        """The first run of each row, by its name."""
        return {row.name: next(self.of(row, 1)) for row in self.table.rows}

    def before(self, run: Before) -> Job:
        """The job of a run that rows begin with or learn from."""
        at = run.at.get(self.name, "")
        usual = self.usual if run.pretraining else self.scale.tasks
        text, settings = (at, "") if is_whole(at) else (run.spec, at or usual)
        return self._job(f"{BEFORE}/{run.name}", "", "", 1, text, settings)

    def of(self, row: Row, seed: int) -> Iterator[Job]:
        """The jobs of a row with a seed: its pretraining, then tasks and evaluations."""
        folder = f"{path_name(row.name)}/seed-{seed}"
        if self.table.pretrains:
            yield self._main(row, seed, f"{folder}/{PRETRAINING}")
        for measure in self.table.measures:
            if measure.eval and measure.is_taken(row.name, self.name):
                yield self._evaluation(measure, row, seed, folder)
            elif measure.spec and measure.is_taken(row.name, self.name):
                settings = "" if self.table.pretrains else self._settings(row)
                text = row.tasks.get(measure.name, measure.spec)
                name = f"{folder}/{path_name(measure.name)}"
                main = f"{folder}/{PRETRAINING}"
                texts = (text, self.scale.tasks, settings)
                yield self._job(name, row.name, measure.name, seed, *texts, main=main)

    def _main(self, row: Row, seed: int, name: str) -> Job:
        text = row.spec if row.is_whole else self.table.spec
        settings = [self.usual, self._settings(row)]
        share = self.scale.steps or 1
        steps = self.sizes(text).get("steps", 0) * share
        are_said = any(sets(setting, "steps", "epochs") for setting in settings)
        if is_whole(at := row.at.get(self.name, "")):
            text, settings = at, []
        elif share != 1 and steps and not are_said:
            settings.append(f"steps={max(1, round(steps))}")
        if row.name in self.steps:
            settings.append(f"steps={self.steps[row.name]}")
        return self._job(name, row.name, "", seed, text, *settings)

    def _evaluation(self, measure: Measure, row: Row, seed: int, folder: str) -> Job:
        """The evaluation of a row's run, or of a task's, under other options."""
        run = f"{folder}/{path_name(measure.of) if measure.of else PRETRAINING}"
        texts = self.files.texts
        if "pairs" in measure.eval:  # a folder, no part of a spec that needs quotes
            texts = {name: text.strip('"') for name, text in texts.items()}
        options = {
            name: Template(value).safe_substitute(texts) if isinstance(value, str) else value
            for name, value in measure.eval.items()
        }
        for name in LENGTHS:
            if tokens := options.get(name):
                options[name] = max(1, round(int(tokens) * self.factors["seq"]))
        name = f"{folder}/{path_name(measure.name)}"
        values = " ".join(map(str, measure.eval.values()))
        job, said = self._job(name, row.name, measure.name, seed, values), json.dumps(options)
        return replace(job, text="", overrides=(), after=(run,), eval=options, said=said)

    @cached_property
    def factors(self) -> Factors:
        """The factors of the scale: its own, else those between its settings and common ones.

        Where the common settings of rows are smaller than the scale's, nothing is enlarged.
        """
        base = self.sizes(self.table.spec)
        written = {name: value for name, value, _ in _numbers(self.scale.spec) if name in base}
        derived = {SHRUNK[name]: min(1.0, value / base[name]) for name, value in written.items()}
        of_scale = {name: getattr(self.scale, name) for name in dict.fromkeys(SHRUNK.values())}
        return {name: value or derived.get(name, 1.0) for name, value in of_scale.items()}

    def _sizes_of(self, text: str) -> Mapping[str, float]:
        """Sizes and steps of a spec as it is written; none if it needs another run first."""
        if not text:
            return {}
        with suppress(BertcError):
            program = self._job(PRETRAINING, "", "", 1, text).program()
            last, steps = program.stages[-1], float(program.steps)
            of_rows = [steps_of(row.spec) for row in self.table.rows if not row.is_whole]
            if not is_whole(text) and not sets(text, "steps") and of_rows and all(of_rows):
                # No spec but every row says its steps: a row is compared with the longest.
                steps = max(filter(None, of_rows))
            return {
                "hidden": last.encoder.hidden, "layers": last.layers, "seq": last.seq,
                "batch": last.batch, "steps": steps,
            }  # fmt: skip
        return {}

    def _settings(self, row: Row) -> str:
        """The settings of a row at this scale."""
        if self.name in row.at:
            return row.at[self.name]
        return "" if row.is_whole else shrunk(row.spec, self.factors)

    def _job(
        self, name: str, row: str, measure: str, seed: int, text: str, *settings: str,
        main: str = "",
    ) -> Job:  # fmt: skip
        texts = [text, *(setting for setting in settings if setting.strip()), f"seed={seed}"]
        names = {name for template in texts for name in Template(template).get_identifiers()}
        runs = {run.name: f"{BEFORE}/{run.name}" for run in self.table.before}
        runs |= {"run": main} if main else {}
        texts = [Template(template).safe_substitute(self.files.texts) for template in texts]
        values = {known: quote(str(self.out / runs[known])) for known in runs.keys() & names}
        if self.sketched:
            before = [run for run in self.table.before if run.name in names]
            values |= {run.name: self._sketch(run) for run in before}
        first, *others = (Template(template).safe_substitute(values) for template in texts)
        after = tuple(path for known, path in runs.items() if known in names)
        lacks = tuple(need for need in self.table.needs if need in names & self.files.lacking)
        return Job(
            self.table.file, self.out, name, row, measure, seed, first, (*others,), after, lacks,
            json.dumps(texts),
        )  # fmt: skip

    def _sketch(self, run: Before) -> str:
        """The text for a run before in estimates."""
        job = self.before(run)
        text = f"spec({quote(' '.join((job.text, *job.overrides[:-1])))})"  # but its seed
        return Template(run.sketch or text).safe_substitute(self.files.texts)


def with_equal_steps(jobs: Jobs, device: str) -> dict[str, int]:
    """Steps by row for the FLOPs, or the time on a device, of the first; empty for equal steps."""
    table, budget, steps = jobs.table, list[str](), dict[str, int]()
    if table.equal == "steps" or not table.pretrains:
        return {}
    for name, job in jobs.firsts().items():
        program = job.program(*budget)
        if not budget:
            cost = bertc.estimate(program, device)
            time = f"{cost.time.seconds_total / 3600:.8g} h, device={quote(device)}"
            flops = f"{cost.flops.train_total:.8g} flops"
            budget = [f"steps=equal({flops if table.equal == 'flops' else time})"]
        steps[name] = program.steps
    return steps
