"""A look at all runs of a table before the first is trained."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bertc.diagnostics import UsageError
from bertc.evaluation.foreseen import foreseen
from bertc.interop.folders import RESOLVED
from bertc.ir.program.resolved import Resolved
from bertc.runs.folder import RunFolder
from bertc.search.goal import ACCURACY, EVALUATED, LOSS, Goal, goal_of
from bertc.tables.job import Job, is_finished
from bertc.tables.programs import Jobs
from bertc.tables.results import measures_of
from bertc.tables.shrinking import sets_seed
from bertc.tables.table import PRETRAINING, Measure


def look_at(jobs: Jobs, stand_ins: Path, say: Callable[[str], None]) -> dict[str, Resolved]:
    """Check every run of a table, and say which rows are one at this scale; their programs.

    A run that others begin with is its program alone, in a folder below ``stand_ins``: all that a
    check reads of it. Of runs whose files are not there, or that begin with such, the text is read.

    Raises:
        SpecError, BertcError: as ``Job.looked_at``: the mistakes of the first run that has any.
        UsageError: if a text sets a seed; if a measure asks for a score that evaluations will not
            have.
        DataError: if text is a folder.
    """
    jobs.files.refuse_folders(jobs.table)
    programs: dict[str, Resolved] = {}
    for job in jobs.all([1]):
        _refuse_seeds(job)
        known = [programs[name] for name in job.after if name in programs]
        if job.eval is not None:
            if known and not job.lacks:
                _look_at_evaluation(jobs, job, known[-1])
        elif not job.lacks and len(known) == len(job.after):
            programs[job.name] = job.looked_at(stand_ins)
            _refuse_unknown_scores(jobs, job, programs[job.name])
            _put(stand_ins / job.name, programs[job.name])
        elif is_finished(job, jobs.out):
            programs[job.name] = RunFolder(jobs.out / job.name).read_resolved()
            _put(stand_ins / job.name, programs[job.name])
        else:
            job.read()
    _tell_twins(jobs, programs, say)
    _tell_apart(jobs, say)
    return programs


def _refuse_seeds(job: Job) -> None:
    texts = (job.text, *job.overrides)[: len(job.places) - 1]  # but the table's own seed
    for text, place in zip(texts, job.places, strict=False):
        if job.eval is None and sets_seed(text):
            raise UsageError(
                f"{job.file}, {place}: seed= would be replaced by the seed of each run",
                help="leave it out; --seeds 3 trains every row with seeds 1, 2 and 3",
            )


def _put(folder: Path, program: Resolved) -> None:
    """Let a folder stand for the run of a program."""
    folder.mkdir(parents=True)
    (folder / RESOLVED).write_text(program.model_dump_json())


def _look_at_evaluation(jobs: Jobs, job: Job, program: Resolved) -> None:
    """Check the options of an evaluation, the files that they name, and its scores."""
    with job.told():
        stage, parts = foreseen(program, *job.evaluation, job.out / job.after[-1])
    if not parts:
        _refuse_unknown_scores(jobs, job, program.model_copy(update={"stages": (stage,)}))
        return
    names = [f"{EVALUATED}/{LOSS}"]
    for task in stage.tasks:
        names += [f"{EVALUATED}/{kind}/{task.title}" for kind in (LOSS, ACCURACY)]
        names += [
            f"{EVALUATED}/{task.title}/{p}/{metric}" for p in parts for metric in task.metrics
        ]
    for measure in measures_of(jobs.table, job):
        with _score_told(job, measure):
            Goal(measure.score, True).figure(names)


def _refuse_unknown_scores(jobs: Jobs, job: Job, program: Resolved) -> None:
    for measure in measures_of(jobs.table, job):
        if job.row and measure.is_taken(job.row, jobs.name):
            with _score_told(job, measure):
                goal_of(measure.score, program)


@contextmanager
def _score_told(job: Job, measure: Measure) -> Iterator[None]:
    """Tell an unknown score with its place in the table's file."""
    try:
        yield
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


def _tell_apart(jobs: Jobs, say: Callable[[str], None]) -> None:
    """Say which tasks have no part of the rows' runs, or of the spec of all rows."""
    table = jobs.table
    lost = "no row's run takes" if table.pretrains else "the spec of all rows does not take"
    places = dict.fromkeys(
        job.places[0]
        for job in jobs.all([1])
        if job.measure and job.eval is None and (table.pretrains or table.spec)
        if not any(each.endswith(f"/{PRETRAINING}") for each in job.after)
    )
    for place in places:
        say(
            f"{table.file}, {place}: {lost} part in it; with init=$run it begins "
            "with the row's run, without init with random weights"
        )
