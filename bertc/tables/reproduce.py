"""``bertc reproduce``: list tables, estimate one, train it, show its results."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bertc import api
from bertc.diagnostics import MissingInputError, ResumeRefusedError, UsageError
from bertc.estimate import device_named
from bertc.tables.costs import Costs, costs_of
from bertc.tables.files import data_files
from bertc.tables.job import Job, outdated, write_file
from bertc.tables.programs import Jobs, with_equal_steps
from bertc.tables.reading import read_table
from bertc.tables.results import results_of
from bertc.tables.showing import Shown
from bertc.tables.table import Table

BEGUN = "begun.json"
"""In the folder of a table: the texts of its needs when it was trained, and equal steps by row."""
SEED = "seed-"


@dataclass(frozen=True)
class TableEnded:
    """A table after its runs: its results, and the runs that failed."""

    shown: Shown
    failures: tuple[tuple[Job, Exception], ...]


def table_folder(table: Table, scale: str, out: Path | None) -> Path:
    """The folder of a table's runs at a scale."""
    return (out or Path("runs") / "tables" / table.name) / scale


def estimate_table(
    name: str, scale: str, data: Sequence[str], out: Path | None, device: str
) -> Costs:
    """Estimate every row of a table at a scale.

    Raises:
        MissingInputError, UsageError, DataError: of the table, the scale, the data or the device.
    """
    table = read_table(name)
    files, folder = data_files(table, data), table_folder(table, scale, out)
    device_named(device)
    jobs = Jobs(table, scale, files, folder, sketched=True)
    jobs.steps = with_equal_steps(jobs, device)
    return costs_of(jobs, device)


def train_table(
    name: str,
    scale: str,
    data: Sequence[str],
    seeds: int,
    out: Path | None,
    say: Callable[[str], None],
) -> TableEnded:
    """Train every unfinished run of a table at a scale, with seeds 1, 2, ...

    Raises:
        MissingInputError, UsageError, DataError: of the table, the scale or the data; if no row
            can be trained.
        SpecError, BertcError: of the first run with a mistake.
        ResumeRefusedError: if a finished run has changed in the table since.
        CannotWriteError: if the disk has no room for the next one.
        StoppedError: after SIGTERM or Ctrl-C, saved.
    """
    from bertc.tables.training import train_all

    table = read_table(name)
    if not scale:
        raise UsageError(
            f"{name} can be trained at several scales",
            help="--scale tiny, for a first look; --scale full trains what the file says",
        )
    folder = table_folder(table, scale, out)
    if out and out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, and runs need a folder", help="--out FOLDER")
    jobs = Jobs(table, scale, data_files(table, data), folder)
    _check(jobs)
    jobs.steps = _steps_in(folder) or with_equal_steps(jobs, "cpu" if scale == "tiny" else "h200")
    every = jobs.all(range(1, seeds + 1))
    runs = trainable(every)
    lines = jobs.files.missing.values()
    if not runs:
        raise MissingInputError(
            "\n".join((f"{table.name} has no row without files that are not there:", *lines)),
            help="--data FOLDER that has them, or --data NAME=PATH",
        )
    _refuse_outdated(every)
    write_file(
        folder / BEGUN, json.dumps({"needs": jobs.files.texts, "steps": jobs.steps}, indent=1)
    )
    for line in (*lines, f"{len(runs):,} of {len(every):,} runs have their files"):
        say(line)
    failures = train_all(runs, say)
    return TableEnded(_shown(jobs, range(1, seeds + 1)), tuple(failures))


def show_table(name: str, scale: str, out: Path | None) -> Shown:
    """The results of a table at a scale as far as its runs are finished.

    The scale may be empty for a table that was begun at one.

    Raises:
        MissingInputError: if no run of it was begun at this scale.
        UsageError: if it was begun at several scales.
    """
    table = read_table(name)
    begun = [known for known in table.scales if table_folder(table, known, out).is_dir()]
    if not scale and len(begun) > 1:
        raise UsageError(
            f"{table.name} was begun at {', '.join(begun)}", help=f"--scale {begun[0]}"
        )
    scale = scale or (begun or ["tiny"])[0]
    folder = table_folder(table, scale, out)
    if scale not in begun:
        raise MissingInputError(
            f"{table.name} has no runs in {folder}",
            help=f"bertc reproduce {name} --scale {scale} trains them",
        )
    files = data_files(table)
    files = replace(files, texts={**files.texts, **_begun(folder).get("needs", {})})
    jobs = Jobs(table, scale, files, folder)
    jobs.steps = _steps_in(folder)
    names = {path.name.removeprefix(SEED) for path in folder.glob(f"*/{SEED}*")}
    return _shown(jobs, sorted(int(name) for name in names if name.isdecimal()) or [1])


def _check(jobs: Jobs) -> None:
    """Check the runs that begin with no other, as ``bertc check`` does."""
    for job in jobs.all([1]):
        if job.eval is None and not (job.after or job.lacks):
            with job.placed():
                if api.check(job.text, job.overrides) > 1:
                    raise UsageError("the settings are a grid", help="one row a point")


def trainable(every: Sequence[Job]) -> list[Job]:
    """The runs that have their files, and whose earlier runs have theirs or are finished."""
    names, jobs = set[str](), list[Job]()
    for job in every:
        if not job.lacks and names.issuperset(job.after):
            jobs.append(job)
            names.add(job.name)
        elif job.is_finished:
            names.add(job.name)
    return jobs


def _refuse_outdated(every: Sequence[Job]) -> None:
    if names := outdated(every):
        folders = ", ".join(str(every[0].out / name) for name in names)
        raise ResumeRefusedError(
            f"{every[0].out / names[0]} was trained for another row or other files than now",
            help="another --out trains the table anew; the same command trains again what is "
            f"removed: {folders}",
        )


def _shown(jobs: Jobs, seeds: Sequence[int]) -> Shown:
    """The results of the runs that are of the table as it is now, and the names of others."""
    every = jobs.all(seeds)
    rows = {job.name.partition("/")[0] for job in every}
    others = [path.name for path in sorted(jobs.out.iterdir()) if path.is_dir()]
    left_out = (*outdated(every), *(name for name in others if name not in rows))
    return Shown(jobs.table, results_of(jobs, seeds, left_out), left_out)


def _begun(folder: Path) -> dict[str, dict[str, str]]:
    path = folder / BEGUN
    return json.loads(path.read_text()) if path.exists() else {}


def _steps_in(folder: Path) -> dict[str, int]:
    """The steps of equal budgets with which a table was begun, if it was."""
    return {row: int(count) for row, count in _begun(folder).get("steps", {}).items()}
