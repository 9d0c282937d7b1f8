"""The speed of a run, and its estimated time left."""

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from typing import ParamSpec, TypeVar

from bertc.cost.flops import executed_flops
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.machine.display import Standing
from bertc.machine.memory import begin_peak, peak_memory_bytes
from bertc.run.records.lines import Usage, append_line
from bertc.run.train.session import Session

P = ParamSpec("P")
T = TypeVar("T")


def evaluations_due(resolved: Resolved, step: int) -> int:
    """The number of evaluations left after ``step`` steps, with one that is due then."""
    every, due = resolved.run.eval_every, 0
    for stage in resolved.stages:
        end, done = stage.first_step + stage.steps, max(stage.first_step, step - 1)
        due += max(0, end // every - done // every) + (end % every > 0 and end > done)
    return due


class Pace:
    """Speed and memory of this process on the stage, for the display and spent.jsonl."""

    def __init__(self, session: Session) -> None:
        begin_peak(session.device)  # What text, another stage or run held before is not its own.
        self._session = session
        self.evaluation_seconds = 0.0
        """Seconds of the last evaluation; 0 before one was timed."""
        self._noted, self._spent = session.progress.step, defaultdict[str, float](float)
        stages = session.resolved.stages
        self._begin()
        self._warm = False
        # Worked out once: it takes milliseconds, and a step may take few.
        self._step_flops = [s.batch * executed_flops(s, s.batch).train for s in stages]

    def _begin(self) -> None:
        progress = self._session.progress
        self._steps, self._tokens, self._seconds = progress.step, progress.tokens, progress.seconds

    def timed(self, what: str, call: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Call, and count its seconds among those of the stage, as ``what`` time goes to."""
        begun = time.monotonic()
        result = call(*arguments, **named)
        self._spent[what] += time.monotonic() - begun
        return result

    def write_down(self) -> None:
        """Note in the run folder what the steps since the last note took."""
        session, step = self._session, self._session.progress.step
        if session.ranks.is_main and self._spent:
            memory = peak_memory_bytes(session.device.type)
            seconds = {what: round(spent, 6) for what, spent in self._spent.items()}
            line = Usage(session.stage.name, step, step - self._noted, memory, seconds)
            append_line(session.folder.spent, asdict(line))
        self._noted, self._spent = step, defaultdict(float)

    def show(self, stage: Stage, loss: float) -> None:
        """Show progress, if it is time to."""
        self._session.display.step(lambda: self._standing(stage, loss))
        if not self._warm:
            self._begin()
            self._warm = True

    def _standing(self, stage: Stage, loss: float) -> Standing:
        progress, resolved = self._session.progress, self._session.resolved
        stages, most = resolved.stages, resolved.run.most_seconds
        seconds = max(1e-9, progress.seconds - self._seconds)
        # In steps of this stage: those of a deeper network, or of longer rows, take longer.
        step_flops = self._step_flops[stages.index(stage)]
        steps_left = sum(
            max(0, s.first_step + s.steps - max(progress.step, s.first_step)) * (flops / step_flops)
            for s, flops in zip(stages, self._step_flops, strict=True)
        )
        due = evaluations_due(self._session.resolved, progress.step)
        pace = seconds / max(1, progress.step - self._steps)
        left = steps_left * pace + due * self.evaluation_seconds
        left = max(0.0, most - progress.seconds) if most else left
        return Standing(
            step=progress.step, steps=resolved.steps_by(progress.step, progress.seconds),
            stage=stage.name, loss=loss,
            tokens_per_second=(progress.tokens - self._tokens) / seconds,
            seconds_left=left if self._warm else None,
            memory_bytes=peak_memory_bytes(self._session.device.type),
        )  # fmt: skip
