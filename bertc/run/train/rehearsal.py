"""``--dry-run``: everything that can fail before the first step, with nothing left behind."""

from pathlib import Path
from tempfile import TemporaryDirectory

from bertc.base.diagnostics import several
from bertc.base.storage import durable
from bertc.base.storage.paths import existing_folder
from bertc.cost.planning.disk import checkpoint_bytes, checkpoints_kept
from bertc.cost.units import bytes_text
from bertc.ir.program.resolved import Resolved
from bertc.model import build
from bertc.run.records.folder import RunFolder
from bertc.run.train.report import Report
from bertc.run.train.start import Start


def try_to_write(resolved: Resolved, out: Path) -> None:
    """Build without memory, and try to write in the run folder."""
    for stage in resolved.stages:
        build(resolved.as_in(stage), "meta")
    # One more is there before an old one is removed.
    largest = max(checkpoint_bytes(resolved, stage) for stage in resolved.stages)
    needed = (1 + checkpoints_kept(resolved)) * largest
    with (
        durable.writing(out, needed, elsewhere="choose another --out"),
        TemporaryDirectory(dir=existing_folder(out)) as folder,
    ):
        durable.write(Path(folder) / "test", b"test")


def rehearsed(start: Start, out: Path) -> Report:
    """Read a batch of each stage; the report of a run that ends where it would begin."""
    resolved, plan, outside = start.resolved, start.plan, start.outside
    notes = []
    if outside and outside.checkpoint:
        notes.append(f"--resume goes on from step {outside.checkpoint.step:,}")
    elif outside and RunFolder(out).holds_a_run:
        notes.append(f"{out} holds a run already: to train, another --out, or --resume")
    if outside:
        cost, source = outside.cost, outside.source
        notes += [
            f"{resolved.name}: {cost.parameters.total:,} parameters, about "
            f"{bytes_text(cost.memory.peak_bytes)} at the peak and "
            f"{cost.time.total_text} on {cost.time.device}",
            *(f"on {plan.device}: {reason}" for reason in plan.reasons),
            *(source.lines() if source else ()),
        ]
    for index, (stage, data) in enumerate(zip(resolved.stages, start.corpus.stages, strict=True)):
        data.train(0)
        passes = stage.steps * stage.batch / data.examples
        notes.append(
            f"stage {stage.name}: {several(stage.steps, 'step')} of "
            f"{several(stage.batch, 'example')} in micro-batches of {plan.microbatches[index]}; "
            f"{several(data.examples, 'example')} with {several(data.tokens, 'token')}, "
            f"read {passes:.2f} times"
        )
    notes.append("nothing was trained, and nothing written but the cache of tokens")
    return Report(out, 0, resolved.steps, 0, 0.0, None, tuple(notes))
