"""The time of a run by what it went to, and the parts of its steps as estimated and profiled."""

from collections.abc import Mapping, Sequence

from bertc.estimate import Estimate
from bertc.estimate.beside import Measured, beside
from bertc.estimate.figures import StageEstimate
from bertc.estimate.units import change_text, duration_text
from bertc.estimate.where import TITLES
from bertc.report.markup import Content, element, note_below, table_of
from bertc.runs.spent import Usage

WENT = {
    "steps": "training steps", "batches": "waiting for batches", "evaluations": "evaluations",
    "checkpoints": "saving",
}  # fmt: skip


def went(told: Estimate, spent: Mapping[str, Usage]) -> Sequence[Content]:
    """A row a stage of what its time went to; the parts of a step of stages that were profiled."""
    timed = {stage: each for stage, each in spent.items() if sum(each.seconds.values())}
    if not timed:
        return ()
    rows = [(stage, *_shares(each.seconds)) for stage, each in timed.items()]
    parts = (
        part
        for stage in told.stages
        if stage.name in timed and timed[stage.name].profiled_seconds
        for part in _parts(stage, timed[stage.name])
    )
    return (
        element("h3", "Where time went"),
        table_of(("stage", *WENT.values()), rows),
        note_below("Of the first process, until the last evaluation."),
        *parts,
    )


def _shares(seconds: Mapping[str, float]) -> list[str]:
    whole = sum(seconds.values())
    return [
        f"{duration_text(seconds[what])}, {seconds[what] / whole:.0%}" if what in seconds else ""
        for what in WENT
    ]


def _parts(stage: StageEstimate, spent: Usage) -> Sequence[Content]:
    """Estimated seconds of a step's parts beside those of a profile."""
    measured = Measured(spent.parts, {}, spent.profiled_seconds)
    step = spent.seconds.get("steps", 0.0) / spent.steps if spent.steps else 0.0
    rows = [
        (
            TITLES.get(each.part, each.part),
            *(duration_text(s) if s else "" for s in (told, took)),
            change_text(took, told) if took else "",
        )
        for each in beside(stage.where, measured, step_seconds=step)
        for told, took in [(each.estimated_seconds, each.measured_seconds)]
        if told or took
    ]
    return (
        element("h3", f"Parts of a step in stage {stage.name}"),
        table_of(("", "estimated", "measured", "difference"), rows),
        note_below("Measured by a profile of a few steps: shares of the mean time of a step."),
    )
