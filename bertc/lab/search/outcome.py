"""The outcome of a search: its trials, the best of them, and how much each setting mattered."""

import json
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bertc.lab.results.runs import read_run
from bertc.lab.search.goal import Goal
from bertc.lab.search.store import Store, read_store, reading_store, run_folder
from bertc.lab_api import RunFolder, Space, Table, formatted, several


def cost_of(store: Store, name: str) -> float:
    """Seconds or FLOPs of all trials, by name."""
    return sum(_cost_of(store.folder, trial, name) for trial in store.trials)


def _cost_of(folder: Path, trial: Any, name: str) -> float:
    if name in trial.user_attrs:
        return float(trial.user_attrs[name])
    path = run_folder(folder, trial.number)
    return float(getattr(read_run(path), name)) if RunFolder(path).holds_a_run else 0.0


MOST_ROWS = 20
LEAST_TRIALS = 30
"""Finished trials that importances need, which look at the best tenth."""
STATE_NAMES = {"COMPLETE": "finished", "PRUNED": "stopped early", "RUNNING": "unfinished"}


@dataclass(frozen=True)
class Tried:
    """A trial: its number from 1, its state in words, its score (None before an evaluation).

    ``values`` are those drawn, by dimension, ``settings`` the same as a spec has them.
    """

    number: int
    state: str
    score: float | None
    values: dict[str, float | str]
    settings: tuple[str, ...]
    folder: str


@dataclass(frozen=True)
class Outcome:
    """The trials of a search by number, and what they took in seconds and FLOPs."""

    goal: Goal
    trials: tuple[Tried, ...]
    seconds: float
    flops: float
    importances: dict[str, float]
    """The share of each setting in what separates good trials, the largest first.

    Of settings that all trials have (PED-ANOVA, Watanabe et al. 2023); {} of few trials.
    """

    @property
    def ranked(self) -> list[Tried]:
        """Trials with a score, finished ones before others, the best first."""
        scored = [trial for trial in self.trials if trial.score is not None]
        sign = -1 if self.goal.more_is_better else 1
        return sorted(scored, key=lambda t: (t.state != "finished", sign * (t.score or 0.0)))

    @property
    def best(self) -> Tried | None:
        """The best finished trial; None without one."""
        return next((trial for trial in self.ranked if trial.state == "finished"), None)

    def as_table(self) -> str:
        """The best trials, and the importances."""
        rows = [
            (str(t.number), t.score, t.state * (t.state != "finished"), " ".join(t.settings))
            for t in self.ranked[:MOST_ROWS]
        ]
        count = len(self.trials)
        seen, known = [trial.state for trial in self.trials], (*STATE_NAMES.values(), "failed")
        states = ", ".join(f"{seen.count(state)} {state}" for state in known if state in seen)
        notes = [f"{several(count, 'trial')}: {states}" if count else "no trials yet"]
        if self.importances:
            shares = ", ".join(f"{name} {share:.0%}" for name, share in self.importances.items())
            notes.append(f"what mattered: {shares}")
        head, units = ("trial", self.goal.name, "", "settings"), (str, "{:.4f}".format)
        return str(Table(head, rows, notes=notes, units=units))

    def as_json(self) -> str:
        """Trials, importances and costs as one JSON object."""
        facts = {
            "schema": 1, "for": self.goal.name, "more_is_better": self.goal.more_is_better,
            "best": self.best and self.best.number, "seconds": self.seconds, "flops": self.flops,
            "importances": self.importances, "trials": [asdict(trial) for trial in self.trials],
        }  # fmt: skip
        return json.dumps(facts, indent=1)


def outcome_of(store: Store, goal: Goal) -> Outcome:
    """The outcome of a store so far."""
    trials = tuple(_read_trial(store, trial) for trial in store.trials)
    seconds, flops = (cost_of(store, name) for name in ("seconds", "flops"))
    return Outcome(goal, trials, seconds, flops, _importances(store))


def read_outcome(folder: Path) -> Outcome:
    """Read the outcome so far of the search in a folder."""
    store, facts = read_store(folder)
    with reading_store(folder):
        more_is_better = store.study.direction.name == "MAXIMIZE"
        return outcome_of(store, Goal(facts["score"], more_is_better))


def best_spec(outcome: Outcome, space: Space, source: str) -> str:
    """The best trial as a spec, after what it came from; empty without one."""
    if (best := outcome.best) is None:
        return ""
    point = space.point(lambda dimension: best.values[dimension.name])
    title = f"# {source}: " * bool(source) or "# "
    return f"{title}trial {best.number}, {outcome.goal.name} {best.score:.4f}\n" + formatted(
        point.program
    )


def _read_trial(store: Store, trial: Any) -> Tried:
    known = STATE_NAMES.get(trial.state.name, "unfinished")
    state = "failed" if "failed" in trial.user_attrs else known
    score = trial.value
    if score is None and trial.intermediate_values:
        score = trial.intermediate_values[max(trial.intermediate_values)]
    values = {n: float(v) if isinstance(v, int) else v for n, v in trial.params.items()}
    folder = run_folder(store.folder, trial.number)
    settings = tuple(trial.user_attrs.get("settings", ()))
    return Tried(trial.number + 1, state, score, values, settings, str(folder))


def _importances(store: Store) -> dict[str, float]:
    complete = store.optuna.trial.TrialState.COMPLETE
    if sum(trial.state == complete for trial in store.trials) < LEAST_TRIALS:
        return {}
    evaluator = store.optuna.importance.PedAnovaImportanceEvaluator()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shares = store.optuna.importance.get_param_importances(store.study, evaluator=evaluator)
    except (ValueError, RuntimeError):  # all trials have the same score, for one
        return {}
    return {name: float(share) for name, share in shares.items()}
