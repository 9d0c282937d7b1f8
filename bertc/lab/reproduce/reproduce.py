"""``bertc reproduce``: estimate a table, train it, show its results."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertc import MissingInputError, ResumeRefusedError, UsageError
from bertc.lab.reproduce.costs import Costs, costs_of
from bertc.lab.reproduce.files import data_files
from bertc.lab.reproduce.job import Job, find_outdated, write_file
from bertc.lab.reproduce.programs import Jobs, with_equal_steps
from bertc.lab.reproduce.reading import read_table
from bertc.lab.reproduce.results import results_of
from bertc.lab.reproduce.showing import Shown
from bertc.lab.reproduce.table import Table

BEGUN = "begun.json"
"""In the folder of a table: the texts of its needs when it was trained, and equal steps by row."""
SEED = "seed-"


def table_folder(table: Table, scale: str, out: Path | None) -> Path:
    """The folder of a table's runs at a scale."""
    return (out or Path("runs") / "tables" / table.name) / scale


def estimate_table(
    name: str, scale: str, data: Sequence[str], out: Path | None, device: str
) -> Costs:
    """Estimate every row of a table at a scale."""
    table = read_table(name)
    jobs = Jobs(table, scale, data_files(table, data), table_folder(table, scale, out), True)
    jobs.steps = with_equal_steps(jobs, device)
    return costs_of(jobs, device)


def train_table(
    table: Table, scale: str, data: Sequence[str], seeds: int, out: Path | None,
    say: Callable[[str], None],
) -> tuple[Shown, list[Exception]]:  # fmt: skip
    """Train every unfinished run of a table with seeds 1, 2, ...; its results, and the failures."""
    from bertc.lab.reproduce.training import train_all

    if not scale:
        help = "--scale tiny, for a first look; --scale full trains what the file says"
        raise UsageError(f"{table.name} can be trained at several scales", help)
    if out and out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, and runs need a folder", help="--out FOLDER")
    folder = table_folder(table, scale, out)
    jobs = Jobs(table, scale, data_files(table, data), folder)
    for job in jobs.all([1]):
        if job.eval is None and not (job.after or job.lacks):
            job.check()
    device = "cpu" if scale == "tiny" else "h200"
    jobs.steps = _read_begun(folder).get("steps") or with_equal_steps(jobs, device)
    every, lines = jobs.all(range(1, seeds + 1)), jobs.files.missing.values()
    if not (runs := trainable(every)):
        raise MissingInputError(
            "\n".join((f"{table.name} has no row without files that are not there:", *lines)),
            help="--data FOLDER that has them, or --data NAME=PATH",
        )
    if names := find_outdated(every):
        folders = ", ".join(str(folder / name) for name in names)
        raise ResumeRefusedError(
            f"{folder / names[0]} was trained for another row or other files than now",
            help="another --out trains the table anew; the same command trains again what is "
            f"removed: {folders}",
        )
    write_file(folder / BEGUN, json.dumps({"needs": jobs.files.texts, "steps": jobs.steps}))
    for line in (*lines, f"{len(runs):,} of {len(every):,} runs have their files"):
        say(line)
    failures = train_all(runs, say)
    return _select_shown(jobs, range(1, seeds + 1)), failures


def show_table(name: str, scale: str, out: Path | None) -> Shown:
    """The results of a table as far as its runs are finished; one begun at a scale needs none."""
    table = read_table(name)
    begun = [known for known in table.scales if table_folder(table, known, out).is_dir()]
    if not scale and len(begun) > 1:
        raise UsageError(f"{name} was begun at {', '.join(begun)}", help=f"--scale {begun[0]}")
    scale = scale or (begun or ["tiny"])[0]
    folder = table_folder(table, scale, out)
    if scale not in begun:
        help = f"bertc reproduce {name} --scale {scale} trains them"
        raise MissingInputError(f"{table.name} has no runs in {folder}", help)
    files, facts = data_files(table), _read_begun(folder)
    files = replace(files, texts={**files.texts, **facts.get("needs", {})})
    jobs = Jobs(table, scale, files, folder)
    jobs.steps = facts.get("steps", {})
    names = {path.name.removeprefix(SEED) for path in folder.glob(f"*/{SEED}*")}
    return _select_shown(jobs, sorted(int(name) for name in names if name.isdecimal()) or [1])


def trainable(every: Sequence[Job]) -> list[Job]:
    """The runs that have their files, and whose earlier runs have theirs or are finished."""
    names, jobs = set[str](), list[Job]()
    for job in every:
        if not job.lacks and names.issuperset(job.after):
            jobs.append(job)
        if job.is_finished or job in jobs:
            names.add(job.name)
    return jobs


def _select_shown(jobs: Jobs, seeds: Sequence[int]) -> Shown:
    """The results of the runs that are of the table as it is now, and the names of others."""
    every = jobs.all(seeds)
    rows = {job.name.partition("/")[0] for job in every}
    others = (path.name for path in sorted(jobs.out.iterdir()) if path.is_dir())
    left_out = (*find_outdated(every), *(name for name in others if name not in rows))
    return Shown(jobs.table, results_of(jobs, seeds, left_out), left_out)


def _read_begun(folder: Path) -> dict[str, Any]:
    """The facts in ``BEGUN``; old folders have none."""
    path = folder / BEGUN
    facts: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return facts
