"""``bertc runs``: the runs of a folder with their state, score and cost. Loads no torch."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from bertc import DataError, UsageError
from bertc.lab.results.runs import find_folders, read_run
from bertc.lab.results.state import last_sign, state_of
from bertc.lab_api import RunFolder, Table, programs, settings_texts, units

TITLES = ("run", "state", "scored by", "last", "best", "parameters", "time", "FLOPs", "when")
"""Columns of the table."""
_UNITS = (
    str, str, str, "{:.4f}".format, "{:.4f}".format, units.count_text, units.duration_text,
    units.flops_text,
)  # fmt: skip
STATES = ("training", "finished", "failed", "stopped")
"""States of runs, in the order of the list."""


@dataclass(frozen=True)
class Listed:
    """A run in the list; ``last`` and ``best`` are its evaluations by what ranks them.

    ``seconds`` of training and evaluations, ``flops`` of training until its step; ``when`` is the
    Unix time of its last sign of life, ``rank`` of its best evaluation, more is better.
    """

    folder: Path
    name: str
    state: str
    step: int
    steps: int
    scored: str
    last: float | None
    best: float | None
    rank: float | None
    parameters: int
    seconds: float
    flops: float
    when: float
    settings: Mapping[str, str]

    @property
    def standing(self) -> str:
        """Its state, with the step of one that is not finished."""
        done = f"{self.step:,} of {self.steps:,}"
        at = {"training": f" {done}", "stopped": f" at {done}", "failed": f" at {done}"}
        return self.state + at.get(self.state, "")


@dataclass(frozen=True)
class Listing:
    """Runs in order, the unreadable with the reason, and how many do not meet the conditions."""

    runs: tuple[Listed, ...]
    damaged: Mapping[Path, str]
    others: int = 0

    def __iter__(self) -> Iterator[Listed]:
        return iter(self.runs)

    def _repr_html_(self) -> str:
        return self.table().html()

    def table(self) -> Table:
        """A row a run, and a line for each that could not be read."""
        damaged = [f"not listed: {reason}" for reason in self.damaged.values()]
        return Table(TITLES, [_cells(run) for run in self.runs], "", damaged, _UNITS)

    def rows(self) -> list[dict[str, Any]]:
        """A row a run for a data frame: its facts, and each setting that differs as text."""
        names = dict.fromkeys(name for run in self.runs for name in run.settings)
        differ = [n for n in names if len({run.settings.get(n) for run in self.runs}) > 1]
        rows = list[dict[str, Any]]()
        for run in self.runs:
            row = {name: value for name, value in vars(run).items() if name != "settings"}
            row |= {"folder": str(run.folder), "when": datetime.fromtimestamp(run.when, UTC)}
            rows.append(row | {n: run.settings.get(n) for n in differ if n not in row})
        return rows

    def as_table(self) -> str:
        """A row a run, and a line for each that could not be read."""
        table = self.table()
        none = f"none of {self.others:,} runs is such" if self.others else "no run"
        return str(table) if self.runs else "\n".join([none, *table.notes])

    def as_json(self) -> str:
        """The runs as one JSON object, in seconds and FLOPs."""
        runs = [{**vars(run), "folder": str(run.folder)} for run in self.runs]
        damaged = {str(path): reason for path, reason in self.damaged.items()}
        return json.dumps({"schema": 1, "runs": runs, "damaged": damaged}, indent=1)


ORDERS: Mapping[str, Callable[[Listed], Any]] = {
    "when": lambda run: -run.when, "name": lambda run: (run.name, str(run.folder)),
    "state": lambda run: (STATES.index(run.state), -run.when),
    "score": lambda run: (run.rank is None, run.scored, -(run.rank or 0.0)),
    "parameters": lambda run: run.parameters, "seconds": lambda run: run.seconds,
    "flops": lambda run: run.flops,
}  # fmt: skip
"""Keys of sorting: the newest, the best and the cheapest come first."""


def list_runs(folders: Sequence[Path], where: Sequence[str] = (), order: str = "when") -> Listing:
    """List the runs in folders and below them for which every condition holds.

    A condition is ``state=stopped``, ``name=bert*`` (that of its spec or of its folder), or a
    setting as in a spec: ``hidden=256``.
    """
    if order not in ORDERS:
        raise UsageError(
            f"no runs are sorted by {order[:60]!r}", help=f"one of {', '.join(ORDERS)}"
        )
    conditions = [_condition(condition) for condition in where]
    runs, damaged = list[Listed](), dict[Path, str]()
    for path in find_folders(folders):
        try:
            runs.append(_list_run(path))
        except DataError as error:
            damaged[path] = error.message
    chosen = [run for run in runs if all(holds(run) for holds in conditions)]
    ordered = tuple(sorted(chosen, key=ORDERS[order]))
    return Listing(ordered, damaged, len(runs) - len(chosen))


def _list_run(path: Path) -> Listed:
    folder = RunFolder(path)
    run = read_run(path)
    resolved = run.resolved
    scored, best = run.ranked(run.best) if run.best else ("", None)
    return Listed(
        folder=path, name=resolved.name, state=state_of(folder, resolved), step=run.step,
        steps=run.steps, scored=scored, last=run.ranked(run.last)[1] if run.last else None,
        best=best, rank=run.best.rank if run.best else None, parameters=run.parameters,
        seconds=run.seconds, flops=run.flops,
        when=last_sign(folder), settings=settings_texts(resolved),
    )  # fmt: skip


def _condition(text: str) -> Callable[[Listed], bool]:
    name, sign, wanted = text.partition("=")
    if not sign:
        raise UsageError(
            f"--where {text[:60]!r} compares nothing", help="--where state=stopped, hidden=256, ..."
        )
    if name == "state" and wanted not in STATES:
        known = ", ".join(STATES)
        raise UsageError(f"no run has the state {wanted[:60]!r}", help=f"one of {known}")
    if name == "name":
        return lambda run: any(fnmatchcase(title, wanted) for title in (run.name, run.folder.name))
    if name in ("folder", "state"):
        return lambda run: fnmatchcase(str(getattr(run, name)), wanted)
    wanted_texts = [settings_texts(program) for program in programs("", [text], "--where")]

    def holds(run: Listed) -> bool:
        """True if a setting has one of the values, in all stages or in one."""
        texts = {(key.rpartition(".")[2], value) for key, value in run.settings.items()}
        return any(settings.items() <= texts for settings in wanted_texts)

    return holds


def _cells(run: Listed) -> tuple[Any, ...]:
    when = f"{datetime.fromtimestamp(run.when):%Y-%m-%d %H:%M}"
    return (
        str(run.folder), run.standing, run.scored, run.last, run.best, run.parameters,
        run.seconds or None, run.flops or None, when,
    )  # fmt: skip
