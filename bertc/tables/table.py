"""A published table as a file: its rows as specs, what is measured of them, what the paper says.

``specs/tables/NAME.toml`` has no code. ``scales.toml`` there says what every table is shrunk to.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from string import Template
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    model_validator,
    with_config,
)
from typing_extensions import TypedDict

from bertc.diagnostics import listed, nearest
from bertc.estimate import Convention

ScaleName = Literal["full", "base", "small", "tiny"]
PAPERS: ScaleName = "full"
"""The scale of the paper."""
Title = Annotated[str, Field(min_length=1, max_length=200)]
Name = Annotated[str, Field(pattern=r"^[\w.%=+ ,()/:&'-]{1,100}$")]


def _fraction(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return float(Fraction(value))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError(f'{value[:40]} is no factor, as 0.25 or "1/4" are') from None


Factor = Annotated[float, BeforeValidator(_fraction), Field(gt=0, le=100)]
"""A factor; in a file 0.25 or "1/4"."""
Length = Annotated[int, Field(ge=0, le=10**9, strict=True)]
Published = Mapping[str, FiniteFloat]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Need(_Part):
    """Files that runs read, which stand for ``$name`` in specs.

    ``path`` is where they lie below ``--data``, ``form`` what they hold, ``source`` where they are
    had. ``given`` is the text for ``$name``, with its path as ``$path``; ``otherwise`` the text
    without files; ``sketch`` that of estimates without files, where runs wait for them.
    """

    path: Title
    form: Title
    source: Title
    given: str = "$path"
    otherwise: str = ""
    sketch: str = ""


class Before(_Part):
    """A run that others begin with or learn from, as ``$name``; one for all rows and seeds.

    ``at`` are settings instead of those of a scale, or a whole spec, as in rows. ``sketch`` are
    texts for ``$name`` in estimates, of which the first is taken that names no missing files, or
    the last; none: a teacher of that spec.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
    spec: str
    pretraining: bool = True
    """False: a task, with the settings of tasks at a scale."""
    at: Mapping[str, str] = {}
    sketch: tuple[str, ...] = ()


class Row(_Part):
    """A row: its settings beside those of all, or a whole spec that begins with ``extends``.

    They are settings of its pretraining, or in a table that pretrains nothing of its tasks.
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


@with_config(ConfigDict(extra="forbid"))
class EvalOptions(TypedDict, total=False):
    """Options of ``bertc eval``, by the names of ``evaluation.Manner``, and the task."""

    seq: Length
    memory: Length
    clamp: Length
    same_length: bool
    sliding: Length
    examples: Length
    stride: Length
    data: str
    objective: str
    task: str


class Measure(_Part):
    """A column: a score of the row's run, of a task that begins with it, or a mean of others.

    ``spec`` trains a task: ``$run`` is the row's run. ``eval`` are options of ``bertc eval``,
    ``task`` among them, for the row's run or that of the measure ``of``. ``score`` is its name in
    evaluations. ``shown``: a share as percent, a loss as perplexity or as bits. ``rows`` and
    ``scales``: where it is taken; none: everywhere.
    """

    name: Name
    score: str = ""
    spec: str = ""
    eval: EvalOptions = {}
    of: str = ""
    mean: tuple[Name, ...] = ()
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
    network that learns more in few steps. A factor that is not told is that between ``spec`` and
    the spec of all rows; ``rates`` multiplies learning rates.
    """

    spec: str = ""
    arrangement: str = ""
    tasks: str = ""
    widths: Factor | None = None
    layers: Factor | None = None
    seq: Factor | None = None
    batch: Factor | None = None
    steps: Factor | None = None
    rates: Factor = 1


class Table(_Part):
    """A published table: rows, measures, claims, and what its runs need."""

    name: Name
    file: str
    """Its name in messages: its file, or the name of a shipped one."""
    title: Title
    paper: Title
    place: Title
    """Its number in the paper."""
    asks: Title
    """The question that it answers."""
    source: Title
    """The copy in which its figures were read."""
    remark: str = ""
    spec: str = ""
    equal: Literal["steps", "flops", "time"] = "steps"
    convention: Convention = "exact"
    """Convention of FLOPs in estimates beside published ones."""
    needs: Mapping[str, Need] = {}
    before: tuple[Before, ...] = ()
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]
    measures: Annotated[tuple[Measure, ...], Field(min_length=1)]
    claims: tuple[Claim, ...] = ()
    scales: Mapping[ScaleName, Scale]
    own_scales: tuple[ScaleName, ...] = ()
    """Scales whose spec the table says itself, which is taken as it is written."""

    @model_validator(mode="after")
    def _holds_together(self) -> "Table":
        rows, measures = [row.name for row in self.rows], [each.name for each in self.measures]
        _refuse_twins(rows, "rows")
        _refuse_twins([*measures, *FIGURES, PRETRAINING], "measures")
        _refuse_twins(["run", *self.needs, *(each.name for each in self.before)], "needs and runs")
        figures = [*measures, *FIGURES]
        for row in self.rows:
            _refuse_strangers(row.published, figures, f"published of row {row.name}")
            _refuse_strangers(row.at, self.scales, f"at of row {row.name}")
            _refuse_strangers(row.tasks, measures, f"tasks of row {row.name}")
        for claim in self.claims:
            _refuse_strangers(claim.order, rows, f"the claim `{claim.says}`")
            _refuse_strangers([claim.measure], figures, f"the claim `{claim.says}`")
        for where, text, known in self._texts():
            _refuse_strangers(Template(text).get_identifiers(), known, where)
        for measure in self.measures:
            trained = [each.name for each in self.measures if each.spec]
            scored = [each.name for each in self.measures if each.score]
            _refuse_strangers(measure.mean, scored, f"mean of {measure.name}")
            _refuse_strangers([measure.of] * bool(measure.of), trained, f"of of {measure.name}")
            _refuse_strangers(measure.rows, rows, f"rows of {measure.name}")
            if bool(measure.score) == bool(measure.mean):
                raise ValueError(f"measure {measure.name} needs a score, or a mean of others")
            if measure.of and not measure.eval:
                raise ValueError(
                    f"measure {measure.name} has of, and no eval that says how it reads"
                )
            if sum(map(bool, (measure.spec, measure.eval, measure.mean))) > 1:
                raise ValueError(f"measure {measure.name} has one of spec, eval and mean")
        return self

    def _texts(self) -> Iterator[tuple[str, str, Sequence[str]]]:
        """Every text in which names stand for files or runs, where it stands, and which may."""
        earlier = [*self.needs]
        for name, need in self.needs.items():
            yield f"needs.{name}", need.given, ["path"]
        for each in self.before:
            for text in (each.spec, *each.at.values(), *each.sketch):
                yield f"before {each.name}", text, earlier
            earlier.append(each.name)
        known = ["run", *earlier]
        yield "spec", self.spec, earlier
        for row in self.rows:
            for text in (row.spec, *row.at.values()):
                yield f"row {row.name}", text, earlier
            for name, text in row.tasks.items():
                yield f"tasks.{name} of row {row.name}", text, known
        for measure in self.measures:
            for text in (measure.spec, *map(str, measure.eval.values())):
                yield f"measure {measure.name}", text, known

    def row(self, name: str) -> Row:
        """The row of a name."""
        return next(row for row in self.rows if row.name == name)

    @property
    def pretrains(self) -> bool:
        """True if rows have a run of their own, beside those of tasks."""
        return any("$run" in each.spec or not (each.spec or each.mean) for each in self.measures)


def is_whole(text: str) -> bool:
    """True of a spec, which begins with ``extends``; false of settings."""
    return text.lstrip().startswith("extends")


FIGURES = ("parameters", "flops")
"""Published figures that estimates have too."""


PRETRAINING = "pretraining"
"""The folder of a row's own run, beside those of measures."""


def path_name(name: str) -> str:
    """A row's or measure's name without what paths and shells read otherwise."""
    return re.sub(r"[^\w.=+%-]+", "-", name).strip("-.")


def _refuse_twins(names: Sequence[str], what: str) -> None:
    """Refuse names that are one, or one folder."""
    if twins := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two {what} are called {min(twins)}")
    paths: dict[str, str] = {"": ""}
    for name in names:
        if (other := paths.setdefault(path_name(name), name)) != name:
            raise ValueError(f"the {what} {name} and {other} would have one folder: rename one")


def _refuse_strangers(names: Iterable[str], known: Iterable[str], where: str) -> None:
    known = [*known]
    if strangers := [name for name in names if name not in known]:
        near = nearest(strangers[0], known)
        there = (
            f"did you mean {near}?" if near else f"there are {listed(known, limit=300) or 'none'}"
        )
        raise ValueError(f"{where} names {strangers[0]}: {there}")
