"""A look at all runs of a table before the first is trained."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bertc.diagnostics import BertcError, ResumeRefusedError, SpecError, UsageError
from bertc.interop.folders import RESOLVED
from bertc.ir.program.resolved import Resolved
from bertc.runs.changes import changed, follows, refuse_another_program
from bertc.runs.folder import RunFolder
from bertc.search.goal import goal_of
from bertc.storage.paths import is_taken
from bertc.tables.job import Job
from bertc.tables.programs import Jobs
from bertc.tables.results import is_finished, measures_of


def look_at(jobs: Jobs, say: Callable[[str], None]) -> None:
    """Check every run of a table, and say which rows are one at this scale.

    A run that others begin with is its program alone, in a folder of its own: all that a check
    reads of it. Of runs whose files are not there, or that begin with such, the text is read.

    Raises:
        SpecError, BertcError: as ``Job.looked_at``: the mistakes of the first run that has any.
        UsageError: if a measure asks for a score that evaluations will not have.
    """
    programs: dict[str, Resolved] = {}
    with TemporaryDirectory(prefix="bertc-table-") as folder:
        for job in jobs.all([1]):
            known = [programs[name] for name in job.after if name in programs]
            if job.eval is not None:
                if known and not {"task", "objective"} & {*job.eval}:
                    _refuse_unknown_scores(jobs, job, known[-1])
            elif not job.lacks and len(known) == len(job.after):
                programs[job.name] = job.looked_at(Path(folder))
                _refuse_unknown_scores(jobs, job, programs[job.name])
                _put(Path(folder) / job.name, programs[job.name])
            elif is_finished(job, jobs.out):
                programs[job.name] = RunFolder(jobs.out / job.name).read_resolved()
                _put(Path(folder) / job.name, programs[job.name])
            else:
                job.read()
    _tell_twins(jobs, programs, say)


def _put(folder: Path, program: Resolved) -> None:
    """Let a folder stand for the run of a program."""
    folder.mkdir(parents=True)
    (folder / RESOLVED).write_text(program.model_dump_json())


def _refuse_unknown_scores(jobs: Jobs, job: Job, program: Resolved) -> None:
    for measure in measures_of(jobs.table, job):
        if job.row and measure.is_taken(job.row, jobs.name):
            try:
                goal_of(measure.score, program)
            except UsageError as error:
                raise UsageError(
                    f"{job.file}, measures.{measure.name}.score: {error.message} ({job.entry})",
                    help=error.help.replace("--for one of", "score = one of"),
                ) from None


def _tell_twins(jobs: Jobs, programs: Mapping[str, Resolved], say: Callable[[str], None]) -> None:
    """Say which rows are one at this scale."""
    firsts = {row.name: next(iter(jobs.of(row, 1))).name for row in jobs.table.rows}
    rows = {
        row: str(programs[name].model_copy(update={"name": ""}))
        for row, name in firsts.items()
        if name in programs
    }
    for number, name in enumerate(rows):
        for other in [*rows][:number]:
            tasks = (dict(jobs.table.row(each).tasks) for each in (name, other))
            if rows[name] == rows[other] and next(tasks) == next(tasks):
                say(
                    f"rows {other} and {name} are the same at this scale; at.{jobs.name} may differ"
                )


def refuse_changed(jobs: Jobs, every: Sequence[Job]) -> None:
    """Refuse finished runs of another program than the table's of today.

    Raises:
        ResumeRefusedError: names the first, and what changed.
    """
    for job, what in changed_runs(every, with_data=True):
        folder = jobs.out / job.name
        raise ResumeRefusedError(
            f"{folder} is not of the table as it is now: {what}",
            help=f"--out FOLDER trains the table anew; without {folder.parent} that row is",
        )


def changed_runs(every: Sequence[Job], *, with_data: bool) -> Iterator[tuple[Job, str]]:
    """Finished runs of another program than the table's of today, and what changed.

    ``with_data``: files are those that the runs should have read. Otherwise nothing is said of
    files and tasks, nor of runs whose programs follow from files that are not there.
    """
    for job in every:
        there = is_finished(job, job.out) and all(is_taken(job.out / name) for name in job.after)
        if job.eval is not None or not there or (with_data and job.lacks):
            continue
        old = RunFolder(job.out / job.name).read_resolved()
        try:
            new = job.program()
        except (SpecError, BertcError):
            if with_data:
                raise
            continue
        if what := _refused(old, new) if with_data else _but_for_files(old, new, bool(job.lacks)):
            yield job, what


def _refused(old: Resolved, new: Resolved) -> str:
    """The reason why a finished run is not one of the new program; empty if it is."""
    try:
        refuse_another_program(old, new)
    except ResumeRefusedError as error:
        return error.message
    return f"it has {old.steps:,} steps, the table {new.steps:,}" * (old.steps != new.steps)


def _but_for_files(old: Resolved, new: Resolved, lacking: bool) -> str:
    """Changes but those of files and tasks; none where those depend on what is ``lacking``."""
    told = [change for change in changed(old, new) if not follows(change, old, new)]
    if lacking and any(change.setting in ("init", "teacher", "vocab") for change in told):
        return ""
    return "; ".join(str(change) for change in told if change.setting not in ("data", "objective"))
