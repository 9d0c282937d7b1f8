"""Methods in training: the class that acts for each, in the order of their stage."""

from typing import Any, assert_never

from bertc.ir.methods.adapter import Freezing, Lora
from bertc.ir.methods.average import Ema
from bertc.ir.methods.batches import FallingMasks, RisingBatch, RowMemory
from bertc.ir.methods.ending import Clock, Patience
from bertc.ir.methods.pruning import Heads, Neurons
from bertc.ir.program.stage import AnyMethod, Stage
from bertc.run.methods.acting import Acting, Averaging, ByClock, Removing, Waiting
from bertc.run.train.session import Session

Methods = tuple[Acting[Any], ...]


def end_of(stage: Stage, step: int, methods: Methods) -> tuple[int, dict[str, float]]:
    """The step after which a stage ends, and the shares of it that methods say are used."""
    shares = {acting.method.setting: acting.share_used() for acting in methods}
    used = {setting: share for setting, share in shares.items() if share is not None}
    return step if max(used.values(), default=0) >= 1 else stage.first_step + stage.steps, used


def act(method: AnyMethod, session: Session, stage: Stage) -> Acting[Any]:
    """A method at work in a stage that the session enters."""
    match method:
        case Clock():
            return ByClock(method, session, stage)
        case RisingBatch() | FallingMasks() | RowMemory() | Lora() | Freezing():
            return Acting(method, session, stage)  # they work within a step
        case Heads() | Neurons():
            return Removing(method, session, stage)
        case Ema():
            return Averaging(method, session, stage)
        case Patience():
            return Waiting(method, session, stage)
        case _:
            assert_never(method)
