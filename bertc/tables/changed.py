"""Finished runs whose program is not that of the table as it is now."""

from collections.abc import Iterable, Sequence

from bertc.diagnostics import BertcError, ResumeRefusedError, SpecError, listed, several
from bertc.ir.program.resolved import Resolved
from bertc.runs.changes import changed, differences, follows
from bertc.runs.folder import RunFolder
from bertc.storage.paths import is_taken
from bertc.tables.job import Job, is_finished


def refuse_changed(every: Sequence[Job]) -> None:
    """Refuse finished runs of another program than the table's of today.

    Raises:
        ResumeRefusedError: names the first, what changed, and what has to be trained again.
    """
    changes = changed_runs(every, with_data=True)
    if not changes:
        return
    (name, what), *others = changes.items()
    more = f"; nor {'is' if len(others) == 1 else 'are'} {several(len(others), 'other run')}"
    out = every[0].out
    again = (out / run for run in (*changes, *beginning_with(changes, every)))
    raise ResumeRefusedError(
        f"{out / name} is not of the table as it is now: {what}{more * bool(others)}",
        help="another --out trains the table anew; the same command trains again what is removed: "
        f"{listed(map(str, filter(is_taken, again)), limit=600)}",
    )


def changed_runs(every: Sequence[Job], *, with_data: bool) -> dict[str, str]:
    """Finished runs of another program than the table's of today, and what changed.

    ``with_data``: files are those that the runs should have read. Otherwise nothing is said of
    settings of files and tasks, nor of runs whose programs follow from files that are not there.

    Raises:
        SpecError, BertcError: with data, if a run has mistakes.
    """
    changes = dict[str, str]()
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
        if what := _differing(old, new, with_data, bool(job.lacks)):
            changes[job.name] = listed(what)
    return changes


def beginning_with(names: Iterable[str], every: Sequence[Job]) -> list[str]:
    """Names of the runs that begin with some, or with those again, or read them."""
    reached = dict.fromkeys(names)
    first = len(reached)
    for job in every:
        if any(name in reached for name in job.after):
            reached[job.name] = None
    return [*reached][first:]


def _differing(old: Resolved, new: Resolved, with_data: bool, lacking: bool) -> list[str]:
    """Settings that differ, or else the values of the programs that do; empty for one program.

    Without data those of files and tasks are left out, and all where they depend on what is
    ``lacking``.
    """
    changes = [change for change in changed(old, new) if not follows(change, old, new)]
    if with_data:
        values = differences(old, new)
        return ([*map(str, changes)] or values) if values else []
    if lacking and any(change.setting in ("init", "teacher", "vocab") for change in changes):
        return []
    return [str(change) for change in changes if change.setting not in ("data", "objective")]
