"""How fast a run goes, and what is left of it."""

from bertc.estimate.flops import executed_flops
from bertc.ir.resolved import Stage
from bertc.train.display import Standing, peak_memory_bytes
from bertc.train.session import Session


class Clock:
    """Speed since this process began on the stage, for the display."""

    def __init__(self, session: Session) -> None:
        self._session = session
        progress = session.progress
        self._steps, self._tokens, self._seconds = progress.step, progress.tokens, progress.seconds

    def show(self, stage: Stage, loss: float) -> None:
        """Show where the run stands."""
        progress, resolved = self._session.progress, self._session.resolved
        seconds = max(1e-9, progress.seconds - self._seconds)
        speed = (progress.tokens - self._tokens) / seconds
        # In steps of this stage: those of a deeper network, or of longer rows, take longer.
        cost = stage.batch * executed_flops(stage, stage.batch).train
        left = sum(
            max(0, s.first_step + s.steps - max(progress.step, s.first_step))
            * (s.batch * executed_flops(s, s.batch).train / cost)
            for s in resolved.stages
        )
        self._session.display.step(
            Standing(
                step=progress.step,
                steps=resolved.steps,
                stage=stage.name,
                loss=loss,
                tokens_per_second=speed,
                seconds_left=left * seconds / max(1, progress.step - self._steps),
                memory_bytes=peak_memory_bytes(self._session.device.type),
            )
        )
