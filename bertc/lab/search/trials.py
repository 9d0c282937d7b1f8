"""Trials: points of a space, each trained in a run folder until it ends or is given up.

A draw is a function of (trial, dimension) and of the trials before, so that a search that was
killed goes on with the values that it would have had.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from itertools import count
from typing import Any

import bertc
from bertc import SpecError
from bertc.lab.results.curves import curves
from bertc.lab.search.goal import Goal
from bertc.lab.search.outcome import cost_of
from bertc.lab.search.store import Store, run_folder
from bertc.lab.trackers.sink import feeding
from bertc.lab_api import Interval, RunFolder, Space, points

Values = dict[str, float | str]
Dimension = Any
"""An interval, or options with a name and texts."""


@dataclass(frozen=True)
class Drawing:
    """The points of a search."""

    space: Space
    trials: int

    @cached_property
    def grid(self) -> tuple[Values, ...] | None:
        """All points in the order of the text; None of more than the trials, or with reals."""
        dimensions = self.space.dimensions.values()
        if any(isinstance(dimension, Interval) and not dimension.whole for dimension in dimensions):
            return None
        points, turn = list[Values](), list[int]()
        while len(points) <= self.trials:
            point, sizes = _at(self.space, turn)
            if point not in points:
                points.append(point)
            turn += [0] * (len(sizes) - len(turn))
            while turn and turn[-1] + 1 == sizes[len(turn) - 1]:
                turn.pop()
            if not turn:
                return tuple(points) if len(points) <= self.trials else None
            turn[-1] += 1
        return None

    @property
    def trials_in_all(self) -> int:
        """The number of trials that there will be."""
        return self.trials if self.grid is None else len(self.grid)

    def next(self, store: Store) -> Any:
        """A new trial for the store with all its values, no point again; None after the last."""
        tried = [trial.params for trial in store.trials]
        if self.grid is not None:
            values = next((point for point in self.grid if point not in tried), None)
        elif len([p for number, p in enumerate(tried) if p not in tried[:number]]) < self.trials:
            # By Optuna's TPE; where these values are known already, at random.
            draws = (_through(self.space, partial(_draw, store, len(tried), n)) for n in count())
            values = next(point for point in draws if point not in tried)
        else:
            values = None
        if values is None:
            return None
        by_name = {d.name: distribution(store, d) for d in self.space.dimensions.values()}
        return store.optuna.trial.create_trial(
            state=store.optuna.trial.TrialState.RUNNING,
            params=values,
            distributions={name: by_name[name] for name in values},
        )


def distribution(store: Store, dimension: Dimension) -> Any:
    """A dimension as Optuna has it."""
    of = store.optuna.distributions
    match dimension:
        case Interval(low=low, high=high, log=log, whole=True):
            return of.IntDistribution(int(low), int(high), log=log)
        case Interval(low=low, high=high, log=log):
            return of.FloatDistribution(low, high, log=log)
    return of.CategoricalDistribution(dimension.texts)


def _draw(store: Store, number: int, attempt: int, dimension: Dimension) -> float | str:
    address = f"{number} {attempt} {dimension.name}".encode()
    seed = int.from_bytes(sha256(address).digest()[:4])
    of = store.optuna
    sampler = (
        of.samplers.RandomSampler(seed=seed)
        if attempt
        else of.samplers.TPESampler(seed=seed, multivariate=False, constant_liar=True)
    )
    trial = of.trial.create_trial(state=of.trial.TrialState.RUNNING)
    within = distribution(store, dimension)
    value = sampler.sample_independent(store.study, trial, dimension.name, within)
    return value if isinstance(dimension, Interval) else str(value)


def _through(space: Space, choose: Callable[[Dimension], float | str]) -> Values:
    """The values by dimension that ``choose`` has for a point; within others there are none."""
    values: Values = {}

    def chosen(dimension: Dimension) -> float | str:
        values[dimension.name] = choose(dimension)
        return values[dimension.name]

    with suppress(SpecError):  # refused as a trial, with its reason
        space.point(chosen)
    return values


def _at(space: Space, turn: Sequence[int]) -> tuple[Values, list[int]]:
    """A point by the numbers of its first options, then the first ones; how many each has."""
    sizes = list[int]()

    def choose(dimension: Dimension) -> Any:
        options: Sequence[Any] = tuple(getattr(dimension, "texts", ()))
        if isinstance(dimension, Interval):
            options = range(int(dimension.low), int(dimension.high) + 1)
        at = turn[len(sizes)] if len(sizes) < len(turn) else 0
        sizes.append(len(options))
        return options[at]

    return _through(space, choose), sizes


MOST_FAILURES = 3
"""Trials that fail at the beginning of a search, before it ends with the reason."""


@dataclass(frozen=True)
class Search:
    """A space to search, the score to search for, and the limits.

    ``spec_text`` is written into each run folder. ``most`` is a budget in seconds or FLOPs of all
    trials together, by name.
    """

    drawing: Drawing
    goal: Goal
    spec_text: str
    most: Mapping[str, float]


def search(task: Search, store: Store, say: Callable[[str], None]) -> None:
    """Train trials until there are enough, or the budget is spent; other processes may as well.

    A process that is killed loses no finished trial: the one that it trained is gone on with from
    its checkpoint, by whichever process looks for a trial next.
    """
    failures = list[bertc.BertcError]()
    while not _spent(task, store):
        with store.taken(task.drawing.next) as trial:
            if trial is None:
                return
            try:
                _Trial(task, store, trial, say).go()
            except (bertc.DataError, bertc.MachineError) as error:
                failures.append(error)
                _tell_failed(store, trial, error, say)
                complete = store.optuna.trial.TrialState.COMPLETE
                ended = any(trial.state == complete for trial in store.trials)
                if len(failures) >= MOST_FAILURES and not ended:
                    raise
            except bertc.StoppedError as error:
                raise type(error)(error.message, help="the same command goes on") from None
    say("the budget is spent: no further trial begins")


class _Trial:
    """One trial in the hands of this process."""

    def __init__(self, task: Search, store: Store, trial: Any, say: Callable[[str], None]) -> None:
        self.task, self.store, self.trial, self.say = task, store, trial, say
        self.path = run_folder(store.folder, trial.number)
        self.pruned = False

    def go(self) -> None:
        """Draw the point, train it as far as it deserves, and tell the store."""
        states = self.store.optuna.trial.TrialState
        try:
            point = self.task.drawing.space.point(lambda d: self.trial.params[d.name])
            (resolved,) = points(point.program)
        except bertc.SpecError as error:
            _tell_failed(self.store, self.trial, error, self.say)
            return
        self.trial.set_user_attr("settings", list(point.settings))
        place = f"trial {self.trial.number + 1} of {self.task.drawing.trials_in_all}"
        self.say(f"{place}: {point.program.name}")
        try:
            if not self._goes_on():
                raise bertc.GivenUpError("given up before")
            if not RunFolder(self.path).is_finished(resolved):
                bertc.train(
                    resolved,
                    self.path,
                    spec_text=f"{self.task.spec_text}\n# the point {point.program.name}\n",
                    resume=RunFolder(self.path).holds_a_run,
                    goes_on=self._goes_on,
                    tracking=feeding,
                )
        except bertc.GivenUpError:
            if self.pruned:
                self._cost()
                self.store.study.tell(self.trial, state=states.PRUNED)
                self.say(f"{place}: stopped early; bertc train --resume {self.path} goes on")
            return
        self._finish(place)

    def _goes_on(self) -> bool:
        """Tell the store of new evaluations; false if the trial is to stop here."""
        values = self._values()
        known = self.store.study.trials[self.trial.number].intermediate_values
        for number, value in enumerate(values, 1):
            if number not in known:
                self.trial.report(value, number)
        self.pruned = self.trial.should_prune()
        return not self.pruned and not _spent(self.task, self.store)

    def _values(self) -> list[float]:
        begun = RunFolder(self.path).holds_a_run
        return self.task.goal.values(curves(self.path)) if begun else []

    def _cost(self) -> None:
        """Keep what the trial took, so that its folder may go."""
        last = curves(self.path).points[-1]
        self.trial.set_user_attr("seconds", last.seconds)
        self.trial.set_user_attr("flops", last.flops)

    def _finish(self, place: str) -> None:
        values = self._values()
        if not values:
            raise bertc.UsageError(
                f"{self.path} was never evaluated, so there is no {self.task.goal.name}",
                help="a task with a dev part, or text",
            )
        self._goes_on()
        self._cost()
        self.store.study.tell(self.trial, values[-1])
        best = self.store.study.best_trial
        self.say(
            f"{place}: {self.task.goal.name} {values[-1]:.4f}; "
            f"the best is {best.value:.4f}, of trial {best.number + 1}"
        )


def _tell_failed(store: Store, trial: Any, error: Exception, say: Callable[[str], None]) -> None:
    """Tell the store of a trial that is worth nothing, so that points like it are avoided."""
    reason = str(error).splitlines()[0]
    trial.set_user_attr("failed", reason)
    store.study.tell(trial, state=store.optuna.trial.TrialState.PRUNED)
    say(f"trial {trial.number + 1} failed: {reason}")


def _spent(task: Search, store: Store) -> bool:
    """True if all trials together have taken the budget."""
    return any(cost_of(store, name) >= most for name, most in task.most.items())
