"""A published table as a file: its rows as specs, what is measured of them, what the paper says.

``specs/tables/NAME.toml`` has no code. ``scales.toml`` there says what every table is shrunk to.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fractions import Fraction
from string import Template
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, model_validator

ScaleName = Literal["full", "base", "small", "tiny"]
PAPERS: ScaleName = "full"
"""The scale of the paper."""
FIGURES = ("parameters", "flops")
"""Published figures that estimates have too."""
MASKED_LM = ("mlm", "tlm")
"""Scores of masked tokens, which have those of masked positions alone next to them."""
PRETRAINING = "pretraining"
"""The folder of a row's own run, next to those of measures."""
EVAL_OPTIONS = (
    "task", "seq", "memory", "clamp", "same_length", "examples", "data", "objective", "pairs",
)  # fmt: skip
"""Options of evaluations, as those of ``bertc eval``."""
Title = Annotated[str, Field(min_length=1, max_length=200)]
Name = Annotated[str, Field(pattern=r"^[\w.%=+ ,()/:&'-]{1,100}$")]


def _fraction(value: Any) -> Any:
    try:
        return float(Fraction(value)) if isinstance(value, str) else value
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError(f'{value[:40]} is no factor, as 0.25 or "1/4" are') from None


Factor = Annotated[float, BeforeValidator(_fraction), Field(gt=0, le=100)]
"""A factor; in a file 0.25 or "1/4"."""
Published = Mapping[str, FiniteFloat]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Need(_Part):
    """Files that runs read, as ``$name`` in specs.

    ``path`` is their place below ``--data``, ``form`` their content, ``source`` where to get them.
    ``given`` is the text for ``$name``, with the path as ``$path``; ``otherwise`` the text without
    files; ``sketch`` the text in estimates without files, for runs that need them.
    """

    path: Title
    form: Title
    source: Title
    given: str = "$path"
    otherwise: str = ""
    sketch: str = ""


class Before(_Part):
    """A run that others begin with or learn from, as ``$name``; one for all rows and seeds.

    ``pretraining`` is false for a task. ``at`` are settings instead of those of a scale, or a whole
    spec. ``sketch`` is the text in estimates; by default a teacher of that spec without weights.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    spec: str
    pretraining: bool = True
    at: Mapping[str, str] = {}
    sketch: str = ""


class Row(_Part):
    """A row: settings added to those of all rows, or a whole spec that begins with ``extends``.

    They are settings of its pretraining; of its tasks in a table without pretraining.
    ``published`` are the paper's figures by measure; ``at`` are settings instead of ``spec`` at a
    scale, where ratios cannot say them, or a whole spec, to which the scale adds nothing. ``tasks``
    are specs instead of those of measures.
    """

    name: Name
    spec: str = ""
    published: Published = {}
    at: Mapping[str, str] = {}
    tasks: Mapping[str, str] = {}
    note: str = ""

    @property
    def is_whole(self) -> bool:
        """True if it does not build on the spec of all rows."""
        return is_whole(self.spec)


class Measure(_Part):
    """A column: a score of the row's run, of a task that begins with it, or a mean of others.

    ``score`` is its name in evaluations. ``spec`` trains a task: ``$run`` is the row's run.
    ``eval`` are options of ``bertc eval`` for the row's run or that of the measure ``of``; without
    them ``of`` is the measure whose run has this score too. With ``until`` it is the cost of a run
    up to the first evaluation with a score as good, without value where none is. ``rows``
    and ``scales`` are those with this measure; none: all.
    """

    name: Name
    score: str = ""
    spec: str = ""
    eval: Mapping[str, int | bool | str] = {}
    of: str = ""
    mean: tuple[Name, ...] = ()
    until: FiniteFloat | None = None
    cost: Literal["seconds", "TFLOP"] = "seconds"
    better: Literal["more", "less"] = "more"
    shown: Literal["as it is", "percent", "perplexity", "bits"] = "as it is"
    rows: tuple[Name, ...] = ()
    scales: tuple[ScaleName, ...] = ()

    def is_taken(self, row: str, scale: str) -> bool:
        """True if it is taken of a row at a scale."""
        return (not self.rows or row in self.rows) and (not self.scales or scale in self.scales)


class Claim(_Part):
    """A claim of the paper: rows by a measure, the best first."""

    says: Title
    measure: Name
    order: Annotated[tuple[Name, ...], Field(min_length=2)]


class Scale(_Part):
    """A scale: settings of all runs, and factors of numbers that rows set.

    ``tasks`` are settings of runs of tasks. ``arrangement`` are settings after ``spec``, of a
    network that learns more in few steps. A missing factor is the ratio of this ``spec`` to the
    spec of all rows.
    """

    spec: str = ""
    arrangement: str = ""
    tasks: str = ""
    widths: Factor | None = None
    layers: Factor | None = None
    seq: Factor | None = None
    batch: Factor | None = None
    steps: Factor | None = None


class Table(_Part):
    """A published table: rows, measures, claims, and what its runs need.

    ``file`` is its name in messages. ``place`` is its number in the paper, ``asks`` the question
    that it answers, ``source`` the copy in which its figures were read. ``convention`` is that of
    FLOPs in estimates.
    """

    name: Name
    file: str
    title: Title
    paper: Title
    place: Title
    asks: Title
    source: Title
    remark: str = ""
    spec: str = ""
    equal: Literal["steps", "flops", "time"] = "steps"
    convention: Literal["exact", "electra", "6n"] = "exact"
    needs: Mapping[str, Need] = {}
    before: tuple[Before, ...] = ()
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]
    measures: Annotated[tuple[Measure, ...], Field(min_length=1)]
    claims: tuple[Claim, ...] = ()
    scales: Mapping[ScaleName, Scale]

    @model_validator(mode="after")
    def _holds_together(self) -> "Table":
        rows, measures = [r.name for r in self.rows], [m.name for m in self.measures]
        _refuse_twins(rows, "rows")
        _refuse_twins([*measures, *FIGURES, PRETRAINING], "measures")
        _refuse_twins(["run", *self.needs, *(run.name for run in self.before)], "needs and runs")
        specs = [row.spec for row in self.rows] + [measure.spec for measure in self.measures]
        for text in (self.spec, *specs):
            if re.search(r"(?<!\S)seed\s*=", text):
                raise ValueError(
                    f"seed= in `{text[:60]}`: leave it out, --seeds 3 has seeds 1 to 3"
                )
        for measure in self.measures:
            if bool(measure.score) == bool(measure.mean):
                raise ValueError(f"measure {measure.name} needs a score, or a mean of others")
            if sum(map(bool, (measure.spec, measure.eval, measure.mean))) > 1:
                raise ValueError(f"measure {measure.name} has one of spec, eval and mean")
            if measure.until is not None and (measure.eval or measure.mean):
                raise ValueError(f"measure {measure.name}: until is of a run's own evaluations")
        for where, names, known in self._names(rows, measures):
            for name in names:
                if name not in known:
                    near = "".join(get_close_matches(name, known, 1))
                    help = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
                    raise ValueError(f"{where} names {name}: {help}")
        return self

    def _names(
        self, rows: Sequence[str], measures: Sequence[str]
    ) -> Iterator[tuple[str, Iterable[str], Sequence[str]]]:
        """Names of other parts: where they are, the names, and those that are known there."""
        figures, scales = [*measures, *FIGURES], [*map(str, self.scales)]
        runs = [*self.needs, *(run.name for run in self.before)]
        for name, need in self.needs.items():
            yield f"needs.{name}", _in(need.given), ["path"]
        for count, run in enumerate(self.before, len(self.needs)):
            yield f"before {run.name}", _in(run.spec, run.sketch, *run.at.values()), runs[:count]
            yield f"at of before {run.name}", run.at, scales
        yield "spec", _in(self.spec), runs
        for row in self.rows:
            yield f"row {row.name}", _in(row.spec, *row.at.values()), runs
            yield f"tasks of row {row.name}", _in(*row.tasks.values()), ["run", *runs]
            yield f"tasks of row {row.name}", row.tasks, measures
            yield f"at of row {row.name}", row.at, scales
            yield f"published of row {row.name}", row.published, figures
        for count, measure in enumerate(self.measures):
            where, options = f"measure {measure.name}", map(str, measure.eval.values())
            yield where, _in(measure.spec, *options), ["run", *runs]
            yield f"eval of {where}", measure.eval, EVAL_OPTIONS
            scored = [m.name for at, m in enumerate(self.measures) if m.score or at < count]
            yield f"mean of {where}", measure.mean, scored
            yield f"of of {where}", filter(None, [measure.of]), measures
            yield f"rows of {where}", measure.rows, rows
        for claim in self.claims:
            yield f"the claim `{claim.says}`", claim.order, rows
            yield f"the claim `{claim.says}`", [claim.measure], figures

    def row(self, name: str) -> Row:
        """The row of a name."""
        return next(row for row in self.rows if row.name == name)

    @property
    def pretrains(self) -> bool:
        """True if rows have a run of their own, next to those of tasks."""
        return any(
            "$run" in measure.spec or not (measure.spec or measure.mean or measure.of)
            for measure in self.measures
        )


def is_whole(text: str) -> bool:
    """True of a spec, which begins with ``extends``; false of settings."""
    return text.lstrip().startswith("extends")


def path_name(name: str) -> str:
    """A row's or measure's name without what paths and shells read otherwise."""
    return re.sub(r"[^\w.=+%-]+", "-", name).strip("-.")


def _in(*texts: str) -> list[str]:
    """The names in texts that are ``$name``."""
    return [name for text in texts for name in Template(text).get_identifiers()]


def _refuse_twins(names: Sequence[str], what: str) -> None:
    """Refuse names that are one, or one folder."""
    paths: dict[str, str] = {"": ""}
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two {what} are called {name}")
        if (other := paths.setdefault(path_name(name), name)) != name:
            raise ValueError(f"the {what} {name} and {other} would have one folder: rename one")
