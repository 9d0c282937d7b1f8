"""A profile of a stage while it is trained, and its parts beside the estimate."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertc.estimate.beside import PartBeside, beside
from bertc.host.machine import cost_on
from bertc.host.profile import Recording, not_profiling, profiling
from bertc.train.session import Session


@contextmanager
def profiled(session: Session, folder: Path | None) -> Iterator[Recording]:
    """Profile the stage that was entered into a folder of its name, if there is a ``folder``."""
    if folder is None:
        yield not_profiling()
        return
    name = session.stage.name
    with profiling(folder / name, session.device) as recording:
        yield recording
    if recording.measured is not None:
        session.measured[name] = recording.measured


def parts_beside(session: Session) -> dict[str, tuple[PartBeside, ...]]:
    """The parts of a step of every profiled stage, as estimated and as measured."""
    if not session.measured:
        return {}
    resolved, plan = session.resolved, session.plan
    stages = tuple(
        stage.model_copy(update={"microbatch": microbatch})
        for stage, microbatch in zip(resolved.stages, plan.microbatches, strict=True)
    )
    run = resolved.run.model_copy(update={"precision": plan.precision})
    planned = resolved.model_copy(update={"stages": stages, "run": run})
    cost = cost_on(session.machine, planned, session.corpus, session.ranks.world)
    return {
        stage.name: beside(stage.where, session.measured[stage.name])
        for stage in cost.stages
        if stage.name in session.measured
    }
