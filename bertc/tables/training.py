"""The runs of a table, trained one after another; several processes share a table's folder."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from time import sleep
from typing import Any

from bertc.diagnostics import BertcError, CannotWriteError, StoppedError, several
from bertc.inference.evaluate import evaluate_run
from bertc.runs.figures import values_of
from bertc.storage import durable
from bertc.storage.claims import claimed
from bertc.syntax.files import spec_text
from bertc.tables.job import EVALUATION, SAME, Job, is_finished
from bertc.trackers.sink import feeding
from bertc.train.loop import train

LOOK_SECONDS = 5.0
"""Between looks at runs that other processes train."""
CLAIMS = ".claims"


def train_all(
    jobs: Sequence[Job], out: Path, say: Callable[[str], None]
) -> list[tuple[Job, Exception]]:
    """Train every unfinished run that has its files; the failures, after which the rest went on.

    A run belongs to the process that holds its claim. Those of other processes are waited for, so
    that runs after them can begin. What was killed goes on from its checkpoints.

    Raises:
        StoppedError: after SIGTERM or Ctrl-C, saved.
        CannotWriteError: if the disk is full, because the next run would not fit either.
    """
    failed = dict[str, Exception]()
    left = [job for job in jobs if not job.lacks]
    waited = False
    while left:
        pending = list[Job]()
        for job in left:
            if is_finished(job, out) or job.name in failed:
                continue
            if lost := next((each for each in job.after if each in failed), None):
                failed[job.name] = _after(lost, failed)
                continue
            ready = all(_is_there(each, jobs, out) for each in job.after)
            if not ready or not _done(job, jobs, out, failed, say):
                pending.append(job)
        if len(pending) == len(left):
            if not waited:
                say(f"left: {several(len(pending), 'run')} of other processes, or waiting for them")
            waited = True
            sleep(LOOK_SECONDS)
        left = pending
    return [(job, failed[job.name]) for job in jobs if job.name in failed]


def _is_there(name: str, jobs: Sequence[Job], out: Path) -> bool:
    return any(job.name == name and is_finished(job, out) for job in jobs)


def _done(
    job: Job,
    jobs: Sequence[Job],
    out: Path,
    failed: dict[str, Exception],
    say: Callable[[str], None],
) -> bool:
    """Do a job, or note why it failed; false if another process is at it."""
    claim = out / CLAIMS / job.name.replace("/", ",")
    with claimed(claim) as mine:
        if not mine:
            return False
        if is_finished(job, out):
            return True
        say(f"run {1 + jobs.index(job)} of {len(jobs)}, {job.name}:")
        try:
            _evaluate(job, out) if job.eval is not None else _train(job, out)
        except StoppedError as stop:
            raise type(stop)(stop.message, help="the same command goes on from here") from None
        except CannotWriteError:
            raise
        except Exception as error:  # a mistake of ours ends one run as well, not the table
            failed[job.name] = error
            say(f"{job.name} failed: {_first_line(error)}")
    return True


def _train(job: Job, out: Path) -> None:
    text = spec_text(job.text, job.settled())
    train(job.program(), out / job.name, spec_text=text, resume=True, tracking=feeding)


def _evaluate(job: Job, out: Path) -> None:
    """Evaluate the run before, and keep the figures."""
    manner, task = job.evaluation
    report = evaluate_run(out / job.after[-1], manner, task=task, quiet=True)
    assert report.evaluation is not None, "a finished run was evaluated"
    line: Any = {"kind": "eval", **report.evaluation.fields()}
    values = values_of(line) | ({SAME: 1.0} if report.evaluation.always else {})
    durable.make_folder(out / job.name)
    durable.replace(out / job.name / EVALUATION, _as_json(values))


def _as_json(values: dict[str, float]) -> bytes:
    return (json.dumps(values, indent=1) + "\n").encode()


def _after(lost: str, failed: dict[str, Exception]) -> BertcError:
    return BertcError(f"{lost} failed, which it begins with", help=_first_line(failed[lost]))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
