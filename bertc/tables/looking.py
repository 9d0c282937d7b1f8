"""A look at all runs of a table before the first is trained."""

from collections.abc import Sequence
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


def look_at(jobs: Jobs, stand_ins: Path) -> None:
    """Check every run of a table.

    A run that others begin with is its program alone, in a folder below ``stand_ins``: all that a
    check reads of it. Of runs whose files are not there, or that begin with such, the text is read.

    Raises:
        SpecError, BertcError: as ``Job.looked_at``: the mistakes of the first run that has any.
        UsageError: if a text sets a seed; if a measure asks for a score that evaluations will not
            have.
    """
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
    names = [f"{EVALUATED}/{LOSS}"] * bool(parts)
    for task in stage.tasks if parts else ():
        names += [f"{EVALUATED}/{kind}/{task.title}" for kind in (LOSS, ACCURACY)]
        names += [f"{EVALUATED}/{task.title}/{p}/{m}" for p in parts for m in task.metrics]
    _refuse_unknown_scores(jobs, job, program.model_copy(update={"stages": (stage,)}), names)


def _refuse_unknown_scores(
    jobs: Jobs, job: Job, program: Resolved, names: Sequence[str] = ()
) -> None:
    """Refuse scores that the program's evaluations will not have, or that are none of ``names``."""
    for measure in measures_of(jobs.table, job):
        if not (job.row and measure.is_taken(job.row, jobs.name)):
            continue
        try:
            Goal(measure.score, True).figure(names) if names else goal_of(measure.score, program)
        except UsageError as error:
            raise UsageError(
                f"{job.file}, measures.{measure.name}.score: {error.message} ({job.entry})",
                help=error.help.replace("--for one of", "score = one of"),
            ) from None
