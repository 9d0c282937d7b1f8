"""The cost of the trials of a search. Loads no torch."""

from pathlib import Path
from typing import Any

from bertc import RunFolder
from bertc.lab.results.curves import curves
from bertc.lab.search.store import Store, run_folder


def cost_of(store: Store, name: str) -> float:
    """Seconds or FLOPs of all trials, by name."""
    return sum(_cost_of(store.folder, trial, name) for trial in store.trials)


def _cost_of(folder: Path, trial: Any, name: str) -> float:
    if name in trial.user_attrs:
        return float(trial.user_attrs[name])
    path = run_folder(folder, trial.number)
    if not RunFolder(path).holds_a_run or not (points := curves(path).points):
        return 0.0
    return float(getattr(points[-1], name))
