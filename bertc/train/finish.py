"""The end of a run: the model for others, the picture, the report."""

import shutil
from dataclasses import fields
from typing import Any

from bertc.interop import export_model
from bertc.train import metrics
from bertc.train.evaluation import Evaluation
from bertc.train.plot import plot
from bertc.train.report import Report
from bertc.train.session import Session


def finish(session: Session) -> Report:
    """Write ``model/`` and the plot, and say what the run came to.

    Raises:
        CannotWriteError: if the disk has no room.
    """
    folder, progress = session.folder, session.progress
    for leftover in folder.path.glob(f".{folder.model.name}.*"):  # of an export that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    tensors = {name: weight.detach().cpu() for name, weight in session.model.named_parameters()}
    exported = export_model(session.resolved, tensors, session.corpus.vocabulary, folder.model)
    lines = metrics.read(folder.metrics)
    plot(lines, folder.plot)
    return Report(
        folder=folder.path,
        step=progress.step,
        steps=session.resolved.steps,
        tokens=progress.tokens,
        seconds=progress.seconds,
        evaluation=_last_evaluation(lines),
        notes=exported.notes,
    )


def _last_evaluation(lines: list[dict[str, Any]]) -> Evaluation | None:
    """The last line about held-out text, as a value again."""
    for line in reversed(lines):
        if line["kind"] == "eval":
            return Evaluation(**{field.name: line.get(field.name) for field in fields(Evaluation)})
    return None
