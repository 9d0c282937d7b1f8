"""Weights & Biases: online where a login is known, else offline in the run folder."""

import os

import wandb

from bertc.lab.results.figures import LineFigures
from bertc.lab.trackers.tracked import DEFAULT_PROJECT, TrackedRun


class WandbSink:
    """A run of W&B under the same id each time, with no login; the variables of W&B hold."""

    def __init__(self, run: TrackedRun) -> None:
        os.environ.setdefault("WANDB_SILENT", "true")
        offline = "WANDB_MODE" not in os.environ and not wandb.login(prompt=False, verify=False)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", DEFAULT_PROJECT),
            id=run.id,
            name=run.name,
            dir=str(run.folder),
            config=dict(run.settings),
            mode="offline" if offline else None,
            # Offline there is nothing to resume: files of the same id are sent as one run.
            resume=None if offline else "allow",
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )

    def record(self, point: LineFigures, time: float) -> None:
        """Log a point at its step; W&B's own process writes it, and sends it when it can."""
        self._run.log({**point.values, "_timestamp": time}, step=point.step)

    def close(self) -> None:
        """Wait until all is written, and sent if W&B is online."""
        self._run.finish()
