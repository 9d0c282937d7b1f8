"""``bertc reproduce``: list tables, tell what one costs, train it, show what came out."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bertc.diagnostics import MissingInputError, UsageError, listed, several
from bertc.estimate import device_named
from bertc.storage import durable
from bertc.storage.json_file import read_json
from bertc.storage.paths import is_file, is_folder, names_in
from bertc.tables.changed import beginning_with, changed_runs, refuse_changed
from bertc.tables.costs import Costs, costs_of, lacking, stand_ins, waiting
from bertc.tables.files import data_files
from bertc.tables.job import Job
from bertc.tables.looking import look_at
from bertc.tables.programs import Jobs, with_equal_steps
from bertc.tables.reading import read_table
from bertc.tables.results import results_of
from bertc.tables.showing import Shown, seeds_text
from bertc.tables.table import Table

STEPS = "steps.json"
_LARGEST_BYTES = 2**20
SEED = "seed-"


@dataclass(frozen=True)
class TableEnded:
    """A table after its runs: what came out, and the runs that failed."""

    shown: Shown
    failures: tuple[tuple[Job, Exception], ...]


def table_folder(table: Table, scale: str, out: Path | None) -> Path:
    """The folder of a table's runs at a scale."""
    return (out or Path("runs") / "tables" / table.name) / scale


def tell_costs(
    name: str,
    scale: str,
    data: Sequence[str],
    out: Path | None,
    device: str,
) -> Costs:
    """Estimate every row of a table at a scale, after the look that training begins with.

    Raises:
        MissingInputError, UsageError, DataError: of the table, the scale or the data.
        SpecError: the mistakes of a run.
    """
    table = read_table(name)
    files = data_files(table, data)
    device_named(device)  # refused before it is of every row
    folder = table_folder(table, scale, out)
    with TemporaryDirectory(prefix="bertc-table-") as programs:
        plain = Jobs(table, scale, files, folder)
        look_at(plain, Path(programs))
        jobs = Jobs(table, scale, files, folder, sketched=True, stand_ins=Path(programs))
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
        ResumeRefusedError: if a finished run is of another program than the table's of today.
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
    if out and is_file(out):
        raise UsageError(f"{out} is a file, and runs need a folder", help="--out FOLDER")
    jobs = Jobs(table, scale, data_files(table, data), folder)
    with TemporaryDirectory(prefix="bertc-table-") as programs:
        look_at(jobs, Path(programs))
    jobs = _with_steps(jobs)
    numbers = range(1, seeds + 1)
    every = waiting(jobs.all(numbers), folder)
    lacks = lacking(jobs, every)
    if all(job.lacks for job in every):
        raise MissingInputError(
            "\n".join((f"{table.name} has no row without files that are not there:", *lacks)),
            help="--data FOLDER that has them, or --data NAME=PATH",
        )
    for line in (*lacks, *stand_ins(jobs), _counted(every, numbers)):
        say(line)
    refuse_changed(every)
    with durable.writing(folder):
        durable.make_folder(folder)
    failures = train_all(every, folder, say)
    return TableEnded(_shown(jobs, numbers, with_data=False), tuple(failures))


def _counted(every: Sequence[Job], seeds: Sequence[int]) -> str:
    """The number of runs, and of what they are."""
    kinds = {
        "before rows": [job for job in every if not job.row],
        "of rows": [job for job in every if job.row and not job.measure],
        "of measures": [job for job in every if job.measure],
    }
    told = ", ".join(f"{len(found):,} {kind}" for kind, found in kinds.items() if found)
    return f"{several(len(every), 'run')}{seeds_text(seeds)}: {told}"


def show_table(name: str, scale: str, data: Sequence[str], out: Path | None) -> Shown:
    """The results of a table at a scale as far as its runs are finished.

    Without a scale it is the one that was begun. With ``data`` it says which runs are of other rows
    or data than the table's, else of other rows alone.

    Raises:
        MissingInputError: if no run of it was begun at this scale.
        MissingInputError, UsageError: of the data; if it was begun at several scales.
    """
    table, scale = read_table(name), scale or _begun_scale(name, out)
    folder = table_folder(table, scale, out)
    if not is_folder(folder):
        raise MissingInputError(
            f"{table.name} has no runs in {folder}",
            help=f"bertc reproduce {name} --scale {scale} trains them",
        )
    seeds = _seeds_in(folder)
    jobs = _kept_steps(Jobs(table, scale, data_files(table, data), folder))
    return _shown(jobs, seeds, with_data=bool(data))


def _shown(jobs: Jobs, seeds: Sequence[int], *, with_data: bool) -> Shown:
    """The results of the runs that are of the table as it is now, and which are not."""
    every = jobs.all(seeds)
    changes = changed_runs(every, with_data=with_data)
    left_out = {*changes, *beginning_with(changes, every)}
    told = [
        f"{name} is not of the table as it is now, and left out: {what}"
        for name, what in changes.items()
    ]
    if later := len(left_out) - len(told):
        told.append(f"left out with them: {several(later, 'run')} that began with one")
    known = {job.name.partition("/")[0] for job in jobs.all([1])}
    folders = (name for name in names_in(jobs.out) if is_folder(jobs.out / name))
    if others := [name for name in folders if name not in known]:
        told.append(f"runs of no row that the table has now, left out: {listed(others)}")
    return Shown(jobs.table, results_of(jobs, seeds, left_out), tuple(told))


def _begun_scale(name: str, out: Path | None) -> str:
    """The scale at which a table was begun.

    Raises:
        UsageError: if there are several.
        MissingInputError: if there is none.
    """
    table = read_table(name)
    begun = [scale for scale in table.scales if is_folder(table_folder(table, scale, out))]
    if len(begun) > 1:
        raise UsageError(f"{table.name} was begun at {listed(begun)}", help=f"--scale {begun[0]}")
    if not begun:
        raise MissingInputError(
            f"{table.name} was not begun yet in {table_folder(table, '', out)}",
            help=f"bertc reproduce {name} --scale tiny trains it",
        )
    return begun[0]


def _with_steps(jobs: Jobs) -> Jobs:
    """The jobs with the steps of equal budgets, which the first process to work at them keeps."""
    path = jobs.out / STEPS
    if jobs.table.equal != "steps" and not is_file(path):
        found = with_equal_steps(jobs, "cpu" if jobs.name == "tiny" else "h200")
        durable.make_folder(jobs.out)
        durable.replace(path, (json.dumps(found, indent=1) + "\n").encode())
    return _kept_steps(jobs)


def _kept_steps(jobs: Jobs) -> Jobs:
    """The jobs with the steps of equal budgets that were kept, if any were."""
    path = jobs.out / STEPS
    if jobs.table.equal == "steps" or not is_file(path):
        return jobs
    steps = {row: int(count) for row, count in read_json(path, _LARGEST_BYTES).items()}
    return Jobs(jobs.table, jobs.name, jobs.files, jobs.out, steps)


def _seeds_in(folder: Path) -> list[int]:
    """The seeds that runs in a table's folder have."""
    names = {path.name.removeprefix(SEED) for path in folder.glob(f"*/{SEED}*")}
    return sorted(int(name) for name in names if name.isdecimal()) or [1]
