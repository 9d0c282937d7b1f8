"""Trials: points of a space, each trained in a run folder until it ends or is given up."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import bertc
from bertc.lab.results.curves import curves
from bertc.lab.search.drawing import Drawing
from bertc.lab.search.goal import Goal
from bertc.lab.search.outcome import cost_of
from bertc.lab.search.store import Store, run_folder
from bertc.lab.trackers.sink import feeding
from bertc.lab_api import RunFolder, points

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
