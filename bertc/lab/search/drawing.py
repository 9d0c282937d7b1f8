"""The values of a trial: the next point of a grid, or draws with an address.

A draw is a function of (trial, dimension) and of the trials before, so that a search that was
killed goes on with the values that it would have had.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from itertools import count
from typing import Any

from bertc import SpecError
from bertc.lab.search.store import Store
from bertc.lab_api import Interval, Space

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
