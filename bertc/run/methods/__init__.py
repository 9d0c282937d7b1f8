"""Methods in training: the class that acts for each, in the order of their stage."""

from typing import Any, assert_never

from bertc.ir.methods.average import Ema
from bertc.ir.methods.patience import Patience
from bertc.ir.program.stage import AnyMethod, Stage
from bertc.run.methods.acting import Acting
from bertc.run.methods.average import Averaging
from bertc.run.methods.patience import Waiting
from bertc.run.train.session import Session


def acting_in(session: Session, stage: Stage) -> tuple[Acting[Any], ...]:
    """What acts in a stage that the session enters."""
    return tuple(_acting(method, session, stage) for method in stage.methods)


def _acting(method: AnyMethod, session: Session, stage: Stage) -> Acting[Any]:
    match method:
        case Ema():
            return Averaging(method, session, stage)
        case Patience():
            return Waiting(method, session, stage)
        case _:
            assert_never(method)
