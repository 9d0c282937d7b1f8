"""The runs of a table, trained one after another; several processes share a table's folder."""

import json
from collections.abc import Callable, Mapping, Sequence
from time import sleep
from typing import Any

import bertc
from bertc import BertcError, CannotWriteError, StoppedError
from bertc.lab.reproduce.job import DIGEST, EVALUATION, SAME, Job, write_file
from bertc.lab.results.figures import values_of
from bertc.lab.trackers.sink import feeding
from bertc.lab_api import Manner, RunFolder, evaluate_run

LOOK_SECONDS = 5.0
"""Between looks at runs that other processes train."""


def train_all(jobs: Sequence[Job], say: Callable[[str], None]) -> list[Exception]:
    """Train every unfinished run; return the failures, after which the others went on.

    Runs that other processes train are waited for, so that runs after them can begin. What was
    killed goes on from its checkpoints.

    Raises:
        StoppedError: after SIGTERM or Ctrl-C, saved.
        CannotWriteError: if the disk is full, because the next run would not fit either.
    """
    failed = dict[str, Exception]()
    finished = {job.name for job in jobs if job.is_finished}
    waiting = [job for job in jobs if job.name not in finished]
    has_warned = False
    while waiting:
        pending = list[Job]()
        for job in waiting:
            if lost := next((name for name in job.after if name in failed), None):
                why = _first_line(failed[lost])
                failed[job.name] = BertcError(f"{lost} failed, which it begins with", help=why)
            elif not finished.issuperset(job.after):
                pending.append(job)
            elif error := _error_of(job, f"run {1 + jobs.index(job)} of {len(jobs)}", say):
                failed[job.name] = error
            elif job.is_finished:
                finished.add(job.name)
            else:
                pending.append(job)
        if len(pending) == len(waiting):
            if not has_warned:
                say(f"{len(pending)} runs left, of other processes or waiting for them")
            has_warned = True
            sleep(LOOK_SECONDS)
        waiting = pending
    return list(failed.values())


def _error_of(job: Job, number: str, say: Callable[[str], None]) -> Exception | None:
    """Do a job unless another process does or did it; the error with which it failed."""
    if job.is_finished or RunFolder(job.folder).in_use:
        return None
    say(f"{number}, {job.name}:")
    try:
        with job.placed():
            if job.eval is not None:
                _evaluate(job, job.eval)
            else:
                bertc.train(job.text, job.folder, job.overrides, resume=True, tracking=feeding)
        write_file(job.folder / DIGEST, job.digest)
    except StoppedError as stop:
        if RunFolder(job.folder).in_use:  # another process was faster
            return None
        raise type(stop)(stop.message, help="the same command goes on from here") from None
    except CannotWriteError:
        raise
    except Exception as error:  # an internal error ends one run as well, not the table
        say(f"{job.name} failed: {_first_line(error)}")
        return error
    return None


def _evaluate(job: Job, options: Mapping[str, Any]) -> None:
    """Evaluate the run before, and write the figures."""
    manner = Manner(**{name: value for name, value in options.items() if name != "task"})
    run = job.out / job.after[-1]
    report = evaluate_run(run, manner, task=options.get("task", ""), quiet=True)
    assert report.evaluation is not None, "a finished run was evaluated"
    fields = report.evaluation.fields()
    line: Any = {"kind": "eval", "stage": "", "step": report.step, **fields}
    values = values_of(line) | ({SAME: 1.0} if report.evaluation.always else {})
    write_file(job.folder / EVALUATION, json.dumps(values, indent=1) + "\n")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
