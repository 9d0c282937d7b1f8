"""``bertc sweep``: a search over the ranges and lists of a spec, begun, joined or gone on with."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bertc import UsageError
from bertc.lab.fit.budget import UNITS, budget
from bertc.lab.search.drawing import Drawing
from bertc.lab.search.goal import goal_of
from bertc.lab.search.outcome import Outcome, best_spec, outcome_of
from bertc.lab.search.store import open_store, reading_store
from bertc.lab.search.trials import Search, search
from bertc.lab_api import Interval, Program, points, space, spec_text

HALVING = "halving"


def sweep(
    spec: str, overrides: Sequence[str], score: str, trials: int, out: Path | None,
    most: str | None, prune: str | None, say: Callable[[str], None],
) -> tuple[Outcome, str]:  # fmt: skip
    """Search a spec's ranges and lists; the outcome, and the best trial as a spec, if any."""
    if prune not in (None, HALVING):
        raise UsageError(f"--prune {prune}: not known", help=f"--prune {HALVING}")
    limits, where = _limits(most), space(spec, overrides)
    if not where.dimensions:
        raise UsageError(
            "the spec has nothing to search",
            help="a range or a list: layers={2..12}, optimizer=adamw({1e-5..1e-3:log})",
        )
    first = where.point(lambda d: d.low if isinstance(d, Interval) else d.texts[0])
    _refuse_relative_budget(first.program)
    (resolved,) = points(first.program)
    goal = goal_of(score, resolved)
    text = spec_text(spec, overrides)
    title = Path(spec).stem if spec_text(spec) != spec and spec != "-" else "spec"
    folder = out or Path("runs") / title
    facts = {"spec": text, "score": goal.name, "prune": prune or ""}
    store, draws = open_store(folder, goal, facts), Drawing(where, trials)
    if draws.grid is not None:
        say(f"a grid: each of {len(draws.grid):,} points has one trial")
    task = Search(draws, goal, text, limits)
    with reading_store(folder):
        search(task, store, say)
    with reading_store(folder):
        outcome = outcome_of(store, goal)
        return outcome, best_spec(outcome, where, title if title != "spec" else "")


def _limits(most: str | None) -> Mapping[str, float]:
    if most is None:
        return {}
    of_time = any(unit and most.strip().endswith(unit) for unit in UNITS["time"])
    limit = budget("time" if of_time else "flops", most)
    return {"seconds" if of_time else "flops": limit.most}


def _refuse_relative_budget(program: Program) -> None:
    """Refuse a length like that of a first point: trials have none."""
    budget = getattr(getattr(program.settings.get("steps"), "value", None), "budget", None)
    if isinstance(budget, str):
        raise UsageError(
            f"steps=equal({budget}) is as much as the first point of a grid takes, and "
            "trials have no first point",
            help="a stated budget: steps=equal(1e15 flops), steps=equal(10min)",
        )
