"""How fast a run goes, and what is left of it."""

import time

from bertc.estimate.flops import executed_flops
from bertc.ir.resolved import Stage
from bertc.train.display import Standing, peak_memory_bytes
from bertc.train.session import Session


class Laps:
    """Seconds from one call to the next, so that none of a step's time is left out."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def __call__(self) -> float:
        """Seconds since the last call, or since the beginning."""
        now = time.perf_counter()
        passed, self._last = now - self._last, now
        return passed


class Clock:
    """Speed since this process began on the stage, for the display."""

    def __init__(self, session: Session) -> None:
        self._session = session
        progress, stages = session.progress, session.resolved.stages
        self._steps, self._tokens, self._seconds = progress.step, progress.tokens, progress.seconds
        # Worked out once: it takes milliseconds, and a step may take few.
        self._step_flops = [s.batch * executed_flops(s, s.batch).train for s in stages]

    def show(self, stage: Stage, loss: float) -> None:
        """Show where the run stands, if it is time to."""
        self._session.display.step(lambda: self._standing(stage, loss))

    def _standing(self, stage: Stage, loss: float) -> Standing:
        progress, stages = self._session.progress, self._session.resolved.stages
        seconds = max(1e-9, progress.seconds - self._seconds)
        # In steps of this stage: those of a deeper network, or of longer rows, take longer.
        own = self._step_flops[stages.index(stage)]
        left = sum(
            max(0, s.first_step + s.steps - max(progress.step, s.first_step)) * (flops / own)
            for s, flops in zip(stages, self._step_flops, strict=True)
        )
        return Standing(
            step=progress.step,
            steps=self._session.resolved.steps,
            stage=stage.name,
            loss=loss,
            tokens_per_second=(progress.tokens - self._tokens) / seconds,
            seconds_left=left * seconds / max(1, progress.step - self._steps),
            memory_bytes=peak_memory_bytes(self._session.device.type),
        )
