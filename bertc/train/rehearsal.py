"""``--dry-run``: everything that can fail before the first step, with nothing left behind."""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from bertc.data import prepare
from bertc.distributed.process_group import ProcessGroup
from bertc.estimate.units import bytes_text, duration_text
from bertc.host.display import Display
from bertc.host.machine import cost_here, make_plan
from bertc.ir.program.resolved import Resolved
from bertc.nn import build
from bertc.runs.folder import RunFolder, admit
from bertc.step.teachers import digests, require_weights
from bertc.storage import durable
from bertc.storage.paths import existing_folder, is_folder
from bertc.train.init_from import source_of
from bertc.train.report import Report
from bertc.train.session import Watched


def rehearse(
    resolved: Resolved, out: Path, cache: Path, resume: bool, display: Display, ranks: ProcessGroup
) -> Report:
    """Plan, prepare the text into the cache, build without memory, read a batch, try to write.

    The other processes of a run only take part in planning.

    Raises:
        UsageError, ResumeRefusedError, MachineError, DataError, CannotWriteError: as ``train``.
    """
    require_weights(resolved)
    with ranks.raise_on_all():
        plan = make_plan(resolved, ranks.world, ranks.least)
    if not ranks.is_main:
        return Report(out, 0, resolved.steps, 0, 0.0, None)
    if is_folder(out):
        admit(RunFolder(out), resolved, resume)
    model = build(resolved, "meta")
    parameters = sum(weight.numel() for weight in model.parameters())
    # Weights, moments, perhaps the best weights, and a checkpoint written before one is removed.
    copies = 3 + any(stage.patience for stage in resolved.stages)
    _try_to_write(out, copies * 4 * parameters * (resolved.run.keep + 1))
    corpus = prepare(resolved, cache, Watched(display, ranks.stop))
    source = source_of(resolved, corpus.vocabulary)
    digests(resolved, corpus.vocabulary)
    cost = cost_here(resolved, corpus, ranks.world)
    notes = [
        f"{resolved.name}: {parameters:,} parameters, about {bytes_text(cost.memory.peak_bytes)} "
        f"at the peak and {duration_text(cost.time.seconds_total)} on {cost.time.device}",
        *(f"on {plan.device}: {reason}" for reason in plan.reasons),
    ]
    notes += source.lines() if source else ()
    for index, (stage, data) in enumerate(zip(resolved.stages, corpus.stages, strict=True)):
        data.train(0)
        passes = stage.steps * stage.batch / data.examples
        notes.append(
            f"stage {stage.name}: {stage.steps:,} steps of {stage.batch:,} examples in "
            f"micro-batches of {plan.microbatches[index]}; {data.examples:,} examples are "
            f"{data.tokens:,} tokens, read {passes:.2f} times"
        )
    notes.append("nothing was trained, and nothing written but the cache of tokens")
    return Report(out, 0, resolved.steps, 0, 0.0, None, tuple(notes))


def _try_to_write(out: Path, needed_bytes: int) -> None:
    with (
        durable.writing(out, needed_bytes, elsewhere="choose another --out"),
        TemporaryDirectory(dir=existing_folder(out)) as folder,
    ):
        durable.write(Path(folder) / "test", b"test")
        with suppress(FileNotFoundError):
            out.lstat()  # a name that no file system takes fails here
