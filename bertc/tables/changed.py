"""Finished runs that are not of the table as it is now: other settings, other text."""

from collections.abc import Mapping, Sequence

from bertc.data.contents import SourceContent, Today
from bertc.diagnostics import BertcError, ResumeRefusedError, SpecError, listed, several
from bertc.ir.program.resolved import Resolved
from bertc.runs import attempts
from bertc.runs.changes import changed, follows, refuse_another_program
from bertc.runs.folder import RunFolder
from bertc.storage.paths import is_taken
from bertc.tables.job import Job, is_finished


def refuse_changed(every: Sequence[Job]) -> None:
    """Refuse finished runs of another program or text than the table's of today.

    Raises:
        ResumeRefusedError: names the first, what changed, and what has to be trained again.
    """
    told = changed_runs(every, with_data=True)
    if not told:
        return
    (name, what), *others = told.items()
    more = (
        f"; nor {'is' if len(others) == 1 else 'are'} {several(len(others), 'other run')}"
        if others
        else ""
    )
    again = [job for job in every if job.name in {*told, *beginning_with(told, every)}]
    again = [job for job in again if is_taken(job.out / job.name)]
    mains = {job.name.rpartition("/")[0] for job in again if job.row and not job.measure}
    below = (job.name.rpartition("/")[0] for job in again)
    places = [a if a in mains else job.name for a, job in zip(below, again, strict=True)]
    folders = [str(every[0].out / place) for place in dict.fromkeys(places)]
    raise ResumeRefusedError(
        f"{every[0].out / name} is not of the table as it is now: {what}{more}",
        help="another --out trains the table anew; the same command trains again what is removed: "
        f"{listed(folders, limit=600)}",
    )


def changed_runs(every: Sequence[Job], *, with_data: bool) -> dict[str, str]:
    """Finished runs of another program or text than the table's of today, and what changed.

    ``with_data``: files are those that the runs should have read. Otherwise nothing is said of
    settings of files and tasks, nor of runs whose programs follow from files that are not there;
    and what a file held for the run that was begun last is its content.

    Raises:
        SpecError, BertcError: with data, if a run has mistakes.
    """
    found, trained = dict[str, str](), list[Job]()
    for job in every:
        there = is_finished(job, job.out) and all(is_taken(job.out / name) for name in job.after)
        if job.eval is not None or not there or (with_data and job.lacks):
            continue
        trained.append(job)
        old = RunFolder(job.out / job.name).read_resolved()
        try:
            new = job.program()
        except (SpecError, BertcError):
            if with_data:
                raise
            continue
        if what := _refused(old, new) if with_data else _but_for_files(old, new, bool(job.lacks)):
            found[job.name] = what
    same = [job for job in trained if job.name not in found]
    return found | (_since_today(same) if with_data else _since_others(same))


def beginning_with(names: Mapping[str, object], every: Sequence[Job]) -> list[str]:
    """Names of the runs that begin with some, or with those again, or read them."""
    found = dict.fromkeys(names)
    for job in every:
        if any(each in found for each in job.after):
            found[job.name] = None
    return [name for name in found if name not in names]


def _since_today(trained: Sequence[Job]) -> dict[str, str]:
    """Runs that read something else than files hold today."""
    found, today = dict[str, str](), Today()
    for job in trained:
        resolved = RunFolder(job.out / job.name).read_resolved()
        try:
            names = today.changed(resolved, _read_by(job))
        except BertcError:  # a file is not there now, so nobody can tell
            continue
        if names:
            found[job.name] = f"{listed(names)} changed after it was trained"
    return found


def _since_others(trained: Sequence[Job]) -> dict[str, str]:
    """Runs that read something else than files held for a run that was begun later."""
    last, found = dict[str, tuple[str, str]](), dict[str, str]()
    for job in reversed(sorted(trained, key=_begun)):
        for name, content in _read_by(job).items():
            digest, other = last.setdefault(name, (content.digest, job.name))
            if digest != content.digest:
                found[job.name] = f"{name} changed before {other} was trained"
    return found


def _begun(job: Job) -> float:
    """The time when a run was begun; 0 if it does not say."""
    return next((each.time for each in attempts.read(RunFolder(job.out / job.name).attempts)), 0.0)


def _read_by(job: Job) -> dict[str, SourceContent]:
    """Contents that a run read, by name; empty if it did not keep that."""
    lock = RunFolder(job.out / job.name).read_lock()
    return (
        {name: SourceContent(*content) for name, content in lock.contents.items()} if lock else {}
    )


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
