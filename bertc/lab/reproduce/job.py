"""A run of a table: its text, its program, and whether it is finished."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import bertc
from bertc import BertcError, CannotWriteError, Resolved, SpecError, UsageError, lab_api
from bertc.lab_api import Diagnostic, RunFolder

EVALUATION = "evaluation.json"
"""In the folder of a job that evaluates: the figures by name, as ``values_of`` has them."""
SAME = "same answer"
"""Beside them, if every example of a part got one."""
DIGEST = "row.sha256"
"""In the folder of a finished job: the digest of what the table said of it."""


@dataclass(frozen=True)
class Job:
    """A run of a table: ``name`` is its folder below that of the table, ``out``.

    ``after`` are the jobs whose runs it begins with or learns from, ``lacks`` the needs without
    files. ``eval`` are options of an evaluation of the last of these runs, in place of training.
    ``said`` is what the table says of it, with the files, without the folders of runs.
    """

    file: str
    out: Path
    name: str
    row: str
    measure: str
    seed: int
    text: str
    overrides: tuple[str, ...]
    after: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    said: str = ""
    eval: Mapping[str, int | bool | str] | None = None

    @property
    def folder(self) -> Path:
        """The folder of its run."""
        return self.out / self.name

    @property
    def is_finished(self) -> bool:
        """True if its run or its evaluation is finished."""
        if self.eval is not None:
            return (self.folder / EVALUATION).exists()
        run = RunFolder(self.folder)
        try:
            return run.holds_a_run and run.is_finished(run.read_resolved())
        except BertcError:
            return False

    @property
    def digest(self) -> str:
        """The digest of what the table says of it."""
        return sha256(self.said.encode()).hexdigest()

    def check(self) -> None:
        """Check it and the files that it names, as ``bertc check`` does."""
        with self.placed():
            lab_api.findings(self.text, self.overrides).raise_if_any()
            if len(lab_api.points(self.text, self.overrides)) > 1:
                raise UsageError("the settings are a grid", help="one row a point")

    def program(self, *more: str) -> Resolved:
        """Compile it, perhaps with more overrides; runs that it begins with have to be there."""
        with self.placed():
            return bertc.resolve(self.text, (*self.overrides, *more))

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Name the table's file and the row in errors."""
        row = f"row {self.row}" if self.row else self.name.replace("/", " ")
        place = f"{self.file}, {row}{f', measure {self.measure}' if self.measure else ''}"
        try:
            yield
        except SpecError as error:
            raise SpecError(tuple(_placed(m, place) for m in error.diagnostics)) from None
        except BertcError as error:
            raise type(error)(f"{place}: {error.message}", error.help) from None


def _placed(mistake: Diagnostic, file: str) -> Diagnostic:
    """A mistake in a spec's text or in an override, as one of a file."""
    spans = (mistake.span, *(note.span for note in mistake.notes))
    span, *of_notes = (
        replace(span, source=replace(span.source, name=file))
        if span and span.source.name.startswith(("<spec>", "--set"))
        else span
        for span in spans
    )
    notes = (n._replace(span=s) for n, s in zip(mistake.notes, of_notes, strict=True))
    return mistake._replace(span=span, notes=tuple(notes), fix=None)


def find_outdated(jobs: Sequence[Job]) -> list[str]:
    """Names of finished jobs of which the table says something else now, or of runs before them."""
    names = list[str]()
    for job in jobs:
        digest = job.folder / DIGEST
        other = digest.exists() and digest.read_text(encoding="utf-8") != job.digest
        if job.is_finished and (other or any(name in names for name in job.after)):
            names.append(job.name)
    return names


def write_file(path: Path, text: str) -> None:
    """Write a file at once, so that no process reads a part of it."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        raise CannotWriteError(f"cannot write {path}: {error.strerror}") from None
