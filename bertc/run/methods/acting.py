"""Methods between the steps of a stage, in time order."""

from contextlib import AbstractContextManager, nullcontext
from typing import Generic, TypeVar

from bertc.ir.methods.method import Method
from bertc.ir.program.stage import Stage
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.train.phase import Phase
from bertc.run.train.session import Session

M = TypeVar("M", bound=Method)


class Acting(Generic[M]):
    """A method at work in a stage, by default one that does nothing; all processes call it alike.

    What it has are tensors in ``session.held``, which checkpoints save and restore.
    """

    def __init__(self, method: M, session: Session, stage: Stage) -> None:
        self.method, self.session, self.stage = method, session, stage

    def begin(self, phase: Phase) -> None:
        """Look at what the stage has, before its first step here."""

    def share_used(self) -> float | None:
        """The share of the stage that is over, if steps do not say it; at 1 the stage ends."""
        return None

    def before_step(self, phase: Phase) -> None:
        """Act before a batch is taken; a run that goes on from here does it again."""

    def after_step(self) -> None:
        """Act on the weights after an update; the step of ``progress`` counts it."""

    def evaluating(self) -> AbstractContextManager[None]:
        """Surround an evaluation."""
        return nullcontext()

    def after_evaluation(self, evaluation: Evaluation) -> None:
        """Act on what an evaluation has said."""
