"""A run of a table: its texts, where each stands in the table's file, and its program."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from bertc.api import checked, points
from bertc.diagnostics import (
    BertcError,
    Diagnostic,
    Diagnostics,
    MissingInputError,
    Note,
    Source,
    Span,
    SpecError,
    UsageError,
)
from bertc.evaluation.manner import Manner
from bertc.ir.program.resolved import Resolved
from bertc.runs.folder import RunFolder
from bertc.storage.paths import is_file
from bertc.syntax import load
from bertc.syntax.read.parse import OVERRIDE
from bertc.syntax.write.show import quoted
from bertc.tables.table import PRETRAINING

OPTIONAL = "files named by [needs.NAME] may be missing: runs without them are left out"
"""Help of a table where a text names files that are not there."""
EVALUATION = "evaluation.json"
"""In the folder of a job that evaluates: the figures by name, as ``values_of`` has them."""
SAME = "same answer"
"""Beside them, if every example of a part got one."""


class TableText(NamedTuple):
    """A text of a table, and where it stands in the file: ``rows.two.spec``."""

    text: str
    place: str


@dataclass(frozen=True)
class Job:
    """A run of a table: ``name`` is its folder below that of the table, ``out``.

    ``file`` is the table's; ``places`` say where its text and its overrides stand there. ``after``
    are the jobs whose runs it begins with or learns from, ``lacks`` the needs whose files are not
    there. ``eval`` are options of an evaluation of the last of these runs, in place of training.
    """

    file: str
    out: Path
    name: str
    row: str
    measure: str
    seed: int
    text: str
    overrides: tuple[str, ...]
    places: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    share: float = 1
    """Share of the steps that its text says."""
    eval: Mapping[str, int | bool | str] | None = None

    @property
    def entry(self) -> str:
        """The entry of its run: a row, perhaps with a measure, or one before all rows."""
        row = f"row {self.row}" if self.row else self.name.replace("/", " ")
        return f"{row}, measure {self.measure}" if self.measure else row

    @property
    def evaluation(self) -> tuple[Manner, str]:
        """Options and task by which it evaluates the run before."""
        options = dict(self.eval or {})
        task = str(options.pop("task", ""))
        return Manner(**options), task  # type: ignore[arg-type]

    def program(self) -> Resolved:
        """Compile it; the runs that it begins with have to be there.

        Raises:
            SpecError, BertcError: as ``points``; with the table's file, and the place there.
        """
        with self.told():
            return _one(points(self.text, self.settled(), Diagnostics()))

    def looked_at(self, stand_ins: Path) -> Resolved:
        """Check it as ``bertc check`` does, with the runs that it begins with in another folder.

        Raises:
            SpecError, BertcError: as ``program``, with the names of the runs that are to come.
        """
        texts = (self._with_runs_in(stand_ins, each) for each in (self.text, *self.overrides))
        with self.told(stand_ins):
            text, *overrides = texts
            return _one(checked(text, self._with_steps(text, overrides), Diagnostics()))

    def read(self) -> None:
        """Read its text and no more, since files or runs that decide the rest are not there.

        Raises:
            SpecError: as ``program``.
        """
        with self.told():
            load(self.text, self.overrides)

    def settled(self) -> tuple[str, ...]:
        """Its overrides, with the number of steps where it is a share."""
        return self._with_steps(self.text, self.overrides)

    def _with_steps(self, text: str, overrides: Sequence[str]) -> tuple[str, ...]:
        if self.share == 1:
            return (*overrides,)
        steps = _one(points(text, overrides, Diagnostics())).steps
        return (*overrides, f"steps={max(1, round(self.share * steps))}")

    def _with_runs_in(self, folder: Path, text: str) -> str:
        for name in self.after:
            text = text.replace(quoted(str(self.out / name)), quoted(str(folder / name)))
        return text

    @contextmanager
    def told(self, stand_ins: Path | None = None) -> Iterator[None]:
        """Tell errors with the table's file and the place there, and stand-ins as the runs."""

        def real(text: str) -> str:
            return text.replace(str(stand_ins), str(self.out)) if stand_ins else text

        def in_table(span: Span) -> Span:
            source = Source(self._place(span.source.name), real(span.source.text))
            start, end = (len(real(span.source.text[:at])) for at in (span.start, span.end))
            return Span(source, start, end)

        try:
            yield
        except SpecError as error:
            whose = Note(f"in {self.entry} of {self.file}")
            found = (each.changed(real, in_table) for each in error.diagnostics)
            told = [replace(each, notes=(whose, *each.notes)) for each in found]
            raise SpecError(tuple(map(_with_need, told))) from None
        except BertcError as error:
            message = f"{self.file}, {self.entry}: {real(error.message)}"
            help = self._with_names(real(error.help))
            if isinstance(error, MissingInputError):
                help = f"{help}; {OPTIONAL}" if help else OPTIONAL
            raise type(error)(message, help) from None

    def _with_names(self, text: str) -> str:
        """A text in which the folders of runs have the names that stand for them in the table."""
        for name in self.after:
            stands = "run" if name.endswith(f"/{PRETRAINING}") else Path(name).name
            text = text.replace(quoted(str(self.out / name)), f"${stands}")
        return text

    def _place(self, source: str) -> str:
        """The name of a source in the table's file; that of another file as it is."""
        names = ["<spec>", *(f"{OVERRIDE} #{i}" for i in range(1, len(self.places)))]
        places = dict(zip(names, self.places, strict=False))
        return f"{self.file}, {places[source]}" if source in places else source


def is_finished(job: Job, out: Path) -> bool:
    """True if the run or the evaluation of a job is finished."""
    if job.eval is not None:
        return is_file(out / job.name / EVALUATION)
    folder = RunFolder(out / job.name)
    try:
        return folder.holds_a_run and folder.is_finished(folder.read_resolved())
    except (BertcError, SpecError):
        return False


def _with_need(told: Diagnostic) -> Diagnostic:
    return replace(told, notes=(*told.notes, Note(OPTIONAL))) if told.code == "E307" else told


def _one(found: Sequence[Resolved]) -> Resolved:
    if len(found) > 1:
        raise UsageError(f"a grid of {len(found)} points", help="one row a point")
    return found[0]
