"""The cost of a run, as estimated beside what it took."""

from collections.abc import Callable, Mapping, Sequence

from bertc.diagnostics import UsageError
from bertc.estimate import Estimate, estimate
from bertc.estimate.figures import StageEstimate
from bertc.estimate.units import bytes_text, change_text, count_text, duration_text, flops_text
from bertc.estimate.where import TITLES
from bertc.interop.folders import read_network
from bertc.ir.program.model import model_weights
from bertc.ir.program.resolved import Resolved
from bertc.report.axes import time_unit
from bertc.report.markup import Content, element, in_picture, note_below, table_of
from bertc.report.page import Picture
from bertc.report.plotly_js import COLOURS, figure, legend, picture_title, trace
from bertc.runs.curves import Curves
from bertc.runs.folder import RunFolder
from bertc.runs.lock import Lock
from bertc.runs.spent import Usage, by_stage
from bertc.runs.spent import read as read_spent

RowLengths = Callable[[Sequence[Resolved]], list[tuple[int, ...]]]
"""``external.row_lengths``: the mean tokens a row of each program's stages."""
ELSEWHERE = "h200"
"""The device of the estimate where nothing says which device the run had."""
WENT = {
    "steps": "training steps", "batches": "waiting for batches", "evaluations": "evaluations",
    "checkpoints": "saving",
}  # fmt: skip
"""Uses of the time of the first process."""
BOUNDS = (
    ("arithmetic", "arithmetic_seconds"),
    ("memory", "memory_seconds"),
    ("start of operations", "start_seconds"),
)


def told_cost(resolved: Resolved, lock: Lock | None, row_lengths: RowLengths) -> Estimate:
    """The estimate of a run's program on the kind of device that it had.

    Raises:
        UsageError: if the program has more processes than rows.
        DataError: if a file of its tasks cannot be read.
    """
    (lengths,) = row_lengths([resolved])
    if lock is None:
        return estimate(resolved, ELSEWHERE, lengths=lengths)
    plan, run = lock.plan, resolved.run.model_copy(update={"precision": lock.plan.precision})
    stages = tuple(
        stage.model_copy(update={"microbatch": size})
        for stage, size in zip(resolved.stages, plan.microbatches, strict=True)
    )
    planned = resolved.model_copy(update={"stages": stages, "run": run})
    name = "cpu" if plan.device == "cpu" else str(lock.machine.get("name", ELSEWHERE))
    try:
        return estimate(planned, name, devices=plan.processes, lengths=lengths)
    except UsageError:  # a device without known figures
        return estimate(planned, ELSEWHERE, devices=plan.processes, lengths=lengths)


def cost_section(
    folder: RunFolder, curves: Curves, row_lengths: RowLengths
) -> Sequence[Content | Picture]:
    """A table of estimates beside measurements, time by what it went to among them, and pictures.

    Raises:
        MissingInputError, DataError: if the run's files cannot be read.
    """
    resolved, lock = folder.read_resolved(), folder.read_lock()
    if lock is not None:
        lock.refuse_misfit(resolved)
    told = told_cost(resolved, lock, row_lengths)
    spent = by_stage(read_spent(folder.spent))
    rows = [
        _parameters(told, folder),
        *_work(told, resolved, curves, spent),
        *_went(spent),
        _memory(told, spent, on_cpu=lock is None or lock.plan.device == "cpu"),
    ]
    return (
        table_of(("", "estimated", "measured", "difference"), rows),
        note_below(
            f"Estimated for {told.time.device}. {told.time.basis} Memory measured is that of the "
            "first process as a whole, on a CPU with Python, torch and the data."
        ),
        *_where(told),
    )


def _parameters(told: Estimate, folder: RunFolder) -> Sequence[Content]:
    network = read_network(folder.path)
    weights = sum(weight.numel for weight in model_weights(network))
    return ("parameters", f"{told.parameters.total:,}", f"{weights:,}",
            change_text(weights, told.parameters.total))  # fmt: skip


def _work(
    told: Estimate, resolved: Resolved, curves: Curves, spent: Mapping[str, Usage]
) -> list[Sequence[Content]]:
    rows: list[Sequence[Content]] = []
    last = curves.points[-1] if curves.points else None
    done = last.step if last else 0
    flops, seconds = (last.flops, last.seconds) if last else (0.0, 0.0)
    whole = f" of {resolved.steps:,}" if done < resolved.steps else ""
    rows.append(("steps", f"{resolved.steps:,}", f"{done:,}{whole}", ""))
    rows.append(
        ("FLOPs of training", flops_text(told.flops.train_total), flops_text(flops) if last else "",
         "")
    )  # fmt: skip
    step = told.time.seconds_per_step
    steps = sum(each.steps for each in spent.values())
    measured = sum(each.seconds.get("steps", 0.0) for each in spent.values())
    mean = measured / steps if steps else seconds / done if done else 0.0
    rows.append(("a step", told.time.step_text, *_measured(mean, step)))
    total = told.time.seconds_total
    rows.append(("time", told.time.total_text, *_measured(seconds, total * done / resolved.steps)))
    speed = flops / seconds if seconds else 0.0
    assumed = told.flops.train_total / total if total else 0.0
    rows.append(("FLOP/s", flops_text(assumed), *_measured(speed, assumed, flops_text)))
    if last and seconds:
        rows.append(("tokens a second", "", count_text(last.tokens / seconds), ""))
    return rows


def _went(spent: Mapping[str, Usage]) -> list[Sequence[Content]]:
    seconds = {what: sum(each.seconds.get(what, 0.0) for each in spent.values()) for what in WENT}
    whole = sum(seconds.values())
    return [
        (WENT[w], "", f"{duration_text(s)}, {s / whole:.0%}", "") for w, s in seconds.items() if s
    ]


def _measured(
    value: float, told: float, text: Callable[[float], str] = duration_text
) -> tuple[str, str]:
    """A measured value, and how it differs from the estimated one."""
    return (text(value), change_text(value, told)) if value else ("", "")


def _memory(told: Estimate, spent: Mapping[str, Usage], on_cpu: bool) -> Sequence[Content]:
    peak = told.memory.peak_bytes
    measured = max((each.memory_bytes for each in spent.values()), default=0)
    text, change = _measured(measured, peak, bytes_text)
    # A CPU's has Python, torch and the data in it.
    return ("memory at its peak", bytes_text(peak), text, "" if on_cpu else change)


def _where(told: Estimate) -> Sequence[Content | Picture]:
    """Bars of the parts of a step of each stage, by what bounds them."""
    pictures = [_parts(stage, len(told.stages) > 1) for stage in told.stages]
    return (
        element("h3", "Where a step is estimated to go"),
        legend([t for t, _ in BOUNDS]),
        *pictures,
    )


def _parts(stage: StageEstimate, named: bool) -> Picture:
    costs = [cost for cost in stage.where if cost.seconds][::-1]
    title, unit = time_unit(max((cost.seconds for cost in costs), default=0.0))
    bars = [
        trace(
            "bar",
            orientation="h",
            name=bound,
            y=[TITLES.get(cost.part, cost.part) for cost in costs],
            x=[getattr(cost, field) / unit for cost in costs],
            marker={"color": COLOURS[number]},
            customdata=[duration_text(getattr(cost, field)) for cost in costs],
            hovertemplate="%{customdata}<extra>%{fullData.name}</extra>",
        )
        for number, (bound, field) in enumerate(BOUNDS)
    ]
    made = figure(
        bars,
        title=picture_title(f"Stage {in_picture(stage.name)}" if named else "A step"),
        barmode="stack",
        showlegend=False,
        xaxis={"title": {"text": title}},
        yaxis={"automargin": True},
    )
    return Picture(made)
