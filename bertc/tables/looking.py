"""A look at all rows of a table before the first is trained."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from bertc.diagnostics import Diagnostics, ResumeRefusedError, SpecError, UsageError
from bertc.ir.program.resolved import Resolved
from bertc.runs.changes import refuse_another_program
from bertc.runs.folder import RunFolder
from bertc.search.goal import goal_of
from bertc.storage.paths import is_taken
from bertc.syntax import load
from bertc.tables.programs import NUMBERED, Job, Jobs
from bertc.tables.results import is_finished


def look_at_rows(jobs: Jobs, say: Callable[[str], None]) -> None:
    """Compile the runs of rows that wait for no other, and say which rows are one at this scale.

    Of the others the text is read, since runs that they begin with are still to come.

    Raises:
        SpecError: the mistakes of a row or a run before, in its own texts.
        UsageError: if a measure asks for a score that evaluations of a row will not have.
    """
    programs: dict[str, Resolved] = {}
    for each in jobs.table.before:
        _read(jobs.before(each), f"{each.name}, a run before,", say)
    for row in jobs.table.rows:
        first, *others = jobs.of(row, 1)
        for job in (first, *others):
            _read(job, f"row {row.name}{job.measure and f', measure {job.measure}'}", say)
        if first.lacks or first.after:
            continue
        with _said_of(f"row {row.name}", say):
            programs[row.name] = first.program()
        if not first.measure:
            _refuse_unknown_scores(jobs, row.name, programs[row.name])
    for number, name in enumerate(programs):
        for other in [*programs][:number]:
            pair = (programs[each].model_copy(update={"name": ""}) for each in (name, other))
            tasks = (jobs.table.row(each).tasks for each in (name, other))
            if len({*map(str, pair)}) == len({*map(str, tasks)}) == 1:
                say(
                    f"rows {other} and {name} are the same at this scale; at.{jobs.name} may differ"
                )


def refuse_changed(jobs: Jobs, every: Sequence[Job]) -> None:
    """Refuse finished runs of another program than the table's of today.

    Raises:
        ResumeRefusedError: names the first, and what changed.
    """
    for job in every:
        there = is_finished(job, jobs.out) and all(is_taken(jobs.out / name) for name in job.after)
        if job.lacks or job.eval is not None or not there:
            continue
        folder = jobs.out / job.name
        old, new = RunFolder(folder).read_resolved(), job.program()
        try:
            refuse_another_program(old, new, folder)
            if old.steps != new.steps:
                raise ResumeRefusedError(f"it has {old.steps:,} steps, the table {new.steps:,}")
        except ResumeRefusedError as error:
            raise ResumeRefusedError(
                f"{folder} is not of the table as it is now: {error.message}",
                help=f"--out FOLDER trains the table anew; without {folder.parent} that row is",
            ) from None


def _read(job: Job, name: str, say: Callable[[str], None]) -> None:
    """Refuse a run whose text cannot be read."""
    with _said_of(name, say):
        diagnostics = Diagnostics()
        load(job.text, job.overrides, diagnostics)
        diagnostics.raise_if_any()


@contextmanager
def _said_of(name: str, say: Callable[[str], None]) -> Iterator[None]:
    """Say whose texts have mistakes."""
    try:
        yield
    except SpecError:
        say(f"{name} ({NUMBERED}):")
        raise


def _refuse_unknown_scores(jobs: Jobs, row: str, program: Resolved) -> None:
    for measure in jobs.table.measures:
        own = measure.score and not (measure.spec or measure.eval)
        if own and measure.is_taken(row, jobs.name):
            try:
                goal_of(measure.score, program)
            except UsageError as error:
                raise UsageError(
                    f"measure {measure.name}: {error.message}",
                    help=error.help.replace("--for one of", "score = one of"),
                ) from None
