"""Estimates as text: one in detail, several side by side, a step by part, and as JSON."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bertc.base.diagnostics import InNotebooks, Table, several
from bertc.cost import figures
from bertc.cost.units import bytes_text, change_text, count_text, duration_text, flops_text

USEFUL_PASSES, MANY_PASSES = 40, 400
"""Passes after which text is worthless (Muennighoff et al. 2023, figure 1); far more of them."""
PARTS = ("embeddings", "attention", "ffn", "recurrence", "norm", "adapter", "pooler", "head")
TITLES = {"ffn": "feed-forward", "loader": "loader and masking"}
LEGEND = (
    "Parts, forward and backward: attention and feed-forward of all layers with norms and dropout;",
    "head is all that makes losses of the last states, optimiser norm, clipping and update.",
    "What bounds them: arithmetic, memory traffic, or the start of operations.",
    "State: weights with gradients, of the optimiser moments and what methods have. Activations:",
    "what forward of a micro-batch leaves for backward.",
)


@dataclass(frozen=True, repr=False, kw_only=True)
class Estimate(InNotebooks):
    """Cost of a whole program, which prints as its table, in text and in notebooks.

    Figures are sums over stages, and the memory of the stage that needs most.
    """

    name: str
    fingerprint: str
    parameters: figures.Parameters
    flops: figures.Flops
    memory: figures.Memory
    time: figures.Time
    stages: tuple[figures.StageEstimate, ...]
    spread: figures.Spread | None
    left: figures.Left | None
    data: figures.DataEstimate | None = None
    expected: figures.Expected | None = None

    def __str__(self) -> str:
        """The table that ``bertc estimate`` prints."""
        return as_table([self])

    __repr__ = __str__

    def as_json(self, *, where: bool = False) -> dict[str, object]:
        """The estimate as plain values; ``where`` adds the cost of each part of a stage."""
        return {"schema": 1, **figures.plain(vars(self), () if where else ("where",))}

    def tables(self) -> tuple[Table]:
        """The same figures as a table, for notebooks."""
        return (table_of(self),)


def as_json(estimates: Sequence[Estimate], *, where: bool = False) -> str:
    """One estimate as its JSON object, several as the points of one object."""
    points = [estimate.as_json(where=where) for estimate in estimates]
    return json.dumps(points[0] if len(points) == 1 else {"schema": 1, "points": points}, indent=2)


def as_table(estimates: Sequence[Estimate]) -> str:
    """One estimate by part and stage, or several side by side with differences to the first."""
    return str(table_of(estimates[0]) if len(estimates) == 1 else comparison(estimates))


def where_table(estimates: Sequence[Estimate]) -> str:
    """A step of each stage by part, then what rows and columns mean."""
    tables = [_by_part(estimate.name, stage) for estimate in estimates for stage in estimate.stages]
    time = estimates[0].time
    legend = "\n".join((*LEGEND, f"Time on {time.device}:", time.basis))
    return "\n\n".join((*map(str, tables), legend))


def table_of(estimate: Estimate) -> Table:
    """One estimate by part and stage, with its assumptions below."""
    stages = estimate.stages if len(estimate.stages) > 1 else ()
    columns: tuple[Estimate | figures.StageEstimate, ...] = (estimate, *stages)
    rows = list[Sequence[str]]()
    loss: Row = ("expected", lambda c: str(estimate.expected) * (c is estimate))
    losses = {"loss": [loss]} if estimate.expected else {}
    for title, lines in {**_sections(estimate), **losses}.items():
        rows.append((title,))
        rows += [(f"  {label}", *(text(column) for column in columns)) for label, text in lines]
    head = ("", "whole run", *(f"stage {stage.name}" for stage in stages))
    title = f"{estimate.name}  {estimate.fingerprint[:12]}"
    return Table(head, rows, title, (*_left(estimate), *_notes([estimate])))


def comparison(estimates: Sequence[Estimate]) -> Table:
    """A row for each estimate, with differences to the first."""
    several = len(set(map(_steps, estimates))) > 1
    columns: tuple[tuple[str, Callable[[Estimate], float], Callable[[Estimate], str]], ...] = (
        ("encoder", lambda e: e.parameters.encoder, lambda e: count_text(e.parameters.encoder)),
        ("with heads", lambda e: e.parameters.total, lambda e: count_text(e.parameters.total)),
        *((("steps", _steps, lambda e: f"{_steps(e):,}"),) if several else ()),
        ("training", lambda e: e.flops.train_total, lambda e: flops_text(e.flops.train_total)),
        ("peak memory", lambda e: e.memory.peak_bytes, lambda e: bytes_text(e.memory.peak_bytes)),
        ("time", lambda e: e.time.seconds_total, lambda e: e.time.total_text),
        *((("loss, expected", _loss, lambda e: str(e.expected)),) if estimates[0].expected else ()),
    )
    first, rows = estimates[0], []
    for e in estimates:
        pairs = ((text(e), change_text(figure(e), figure(first))) for _, figure, text in columns)
        rows.append((e.name, *(cell for pair in pairs for cell in pair)))
    head = ("", *(cell for label, _, _ in columns for cell in (label, "")))
    return Table(head, rows, notes=_notes(estimates))


def _by_part(name: str, stage: figures.StageEstimate) -> Table:
    total = sum(cost.seconds for cost in stage.where)
    rows = list[Sequence[str]]()
    for part, seconds, *by_bound, state, activations in stage.where:
        shares = (_share(bound, seconds) for bound in by_bound)
        named = TITLES.get(part, part), duration_text(seconds), _share(seconds, total)
        rows.append((*named, *shares, bytes_text(state), bytes_text(activations)))
    head = ("", "a step", "of it", "arithmetic", "memory", "start-up", "state", "activations")
    step = ("whole step", stage.time.step_text, *[""] * 6)
    return Table(head, [*rows, step], f"{name}, stage {stage.name}")


def _share(seconds: float, total: float) -> str:
    return f"{100 * seconds / total:.0f}%" if total else ""


def _notes(estimates: Sequence[Estimate]) -> tuple[str, ...]:
    """The assumptions behind the figures, and what does not fit; a line each."""
    estimate = estimates[0]
    spread, time = estimate.spread, estimate.time
    messages = ", messages counted" if spread else ""
    lines = (
        *(
            f"{unfit.name} does not fit on {unfit.time.device}, not with one example at once."
            for unfit in estimates
            if not unfit.memory.largest_microbatch
        ),
        f"{spread.strategy} on {spread.devices} devices; memory is that of one device, "
        "weights and gradients in flight included.\n"
        "Messages: fp32, but sharded layers as they compute; in rings, at 0.8 of NVLink, PCIe or "
        "main\nmemory within a machine of up to 8 devices, of each one's network link between "
        "machines."
        if spread
        else "",
        *(
            f"Stage {stage.name} reads rows of {stage.row_tokens:,} tokens on average, of at most "
            f"{stage.seq:,}: so for FLOPs and time, while memory is of full ones."
            for stage in estimate.stages
            if stage.row_tokens < stage.seq
        ),
        *(
            f"Stage {stage.name}: {waits:.0%} of a step waits for its host to launch kernels; more "
            "examples at once hide that."
            for stage in estimate.stages
            if (waits := sum(p.start_seconds for p in stage.where) / stage.time.seconds_per_step)
            > 0.1
        ),
        f"FLOPs: {estimate.flops.convention}. Memory: the maximum of a step, at the spec's "
        "micro-batch or the largest that fits.",
        f"Time on {time.device}, without evaluations: matmuls at {time.product_share:.0%} of the "
        f"peak{messages}; MFU of {estimate.name} {time.assumed_mfu:.0%}.",
        time.basis,
    )
    return tuple(line for text in filter(None, lines) for line in text.split("\n"))


def _left(estimate: Estimate) -> list[str]:
    """Size and cost of the network at the end of a run that removes units, and before."""
    if not (left := estimate.left):
        return []
    size = change_text(left.parameters, estimate.parameters.total)
    cost = change_text(left.forward_per_example, estimate.stages[-1].flops.forward_per_example)
    return [
        f"Left at the end: {left.parameters:,} parameters, {size}; forward of an example "
        f"{flops_text(left.forward_per_example)}, {cost}."
    ]


Row = tuple[str, Callable[[Estimate | figures.StageEstimate], str]]


def _sections(run: Estimate) -> dict[str, list[Row]]:
    spread, devices = run.spread, run.spread.devices if run.spread else 1
    trained: Row = ("trained, of it", lambda c: f"{c.parameters.trained:,}")
    generator: Row = ("generator, beside it", lambda c: f"{c.parameters.generator:,}")
    apart: Row = ("frozen, beside it", lambda c: f"{c.parameters.frozen:,}")
    frozen: Row = ("frozen, of it", lambda c: flops_text(c.flops.frozen_per_example))
    update: Row = ("optimiser, of it", lambda c: flops_text(c.flops.update_per_step))
    methods: Row = ("methods, of it", lambda c: bytes_text(c.memory.methods_bytes))
    talk: Row = (
        "messages, a step",
        lambda c: duration_text(c.spread.communication_seconds) if c.spread else "",
    )
    return {
        "parameters": [
            *(_part_row(part) for part in PARTS if part in run.parameters.by_part),
            ("encoder", lambda c: f"{c.parameters.encoder:,}"),
            *([generator] if run.parameters.generator else []),
            *([apart] if run.parameters.frozen else []),
            ("total", lambda c: f"{c.parameters.total:,}"),
            *([trained] if run.parameters.untrained else []),
            ("applied", lambda c: f"{c.parameters.applied:,}"),
        ],
        "FLOPs": [
            ("steps", lambda c: f"{_steps(c):,}"),
            ("forward, an example", lambda c: flops_text(c.flops.forward_per_example)),
            *([frozen] if run.flops.frozen_per_example else []),
            ("training, a step", lambda c: flops_text(c.flops.train_per_step)),
            *([update] if run.flops.update_per_step else []),
            ("training, in all", lambda c: flops_text(c.flops.train_total)),
        ],
        "memory": [
            ("weights", lambda c: bytes_text(c.memory.weights_bytes)),
            ("gradients", lambda c: bytes_text(c.memory.gradients_bytes)),
            ("optimiser", lambda c: bytes_text(c.memory.optimizer_bytes)),
            *([methods] if any(stage.memory.methods_bytes for stage in run.stages) else []),
            ("activations", lambda c: bytes_text(c.memory.activations_bytes)),
            ("peak", lambda c: bytes_text(c.memory.peak_bytes)),
            ("micro-batch", lambda c: f"{c.memory.microbatch:,}"),
            ("largest that fits", lambda c: f"{c.memory.largest_microbatch:,}"),
            ("layers recomputed", lambda c: "yes" if c.memory.recompute else "no"),
        ],
        "time": [
            ("a step", lambda c: c.time.step_text),
            ("in all", lambda c: c.time.total_text),
            *([talk, ("not hidden", _not_hidden)] if spread else []),
            ("device hours", lambda c: _hours(c.time, devices)),
        ],
        **({"data": [*_data_rows(run.data)]} if run.data else {}),
    }


def _part_row(part: str) -> Row:
    return (part, lambda c: count_text(c.parameters.by_part.get(part, 0)))


def _data_rows(run: figures.DataEstimate) -> Iterator[Row]:
    """Rows of text; those of preparing and of a store only where there is some of it."""

    def row(label: str, text: Callable[[figures.DataEstimate], str]) -> Row:
        return (label, lambda c: text(c.data) if c.data else "")

    yield row("text", lambda d: bytes_text(d.text_bytes))
    yield row("tokens", lambda d: "about " * (not d.counted) + count_text(d.tokens))
    yield row("passes", _passes)
    yield row("prepared", lambda d: "about " * (not d.counted) + bytes_text(d.prepared_bytes))
    if run.prepare_seconds:
        preparing = f"preparing, {several(run.cores, 'core')}"
        yield row(preparing, lambda d: f"about {duration_text(d.prepare_seconds)}")
    if run.download_bytes:
        yield row("download, a machine", lambda d: bytes_text(d.download_bytes))
        yield row("read from its cache", lambda d: f"{d.cache_hit_share:.0%}")
    if run.over_cache_bytes:
        yield row("two windows, over cache", lambda d: bytes_text(d.over_cache_bytes))
    waits = ", it waits"
    yield row("reader, of a step", lambda d: f"{d.reader_share:.1%}" + waits * (d.reader_share > 1))


def _passes(data: figures.DataEstimate) -> str:
    """The number of passes, and a remark on text that is far too little."""
    number = f"{data.passes:,.0f}" if data.passes >= MANY_PASSES else f"{data.passes:.3g}"
    little = f", those after {USEFUL_PASSES} teach next to nothing"
    return "about " * (not data.counted) + number + little * (data.passes >= MANY_PASSES)


def _loss(estimate: Estimate) -> float:
    return estimate.expected.loss if estimate.expected else 0.0


def _not_hidden(column: Estimate | figures.StageEstimate) -> str:
    seconds = column.spread.exposed_seconds if column.spread else 0.0
    return f"{duration_text(seconds)}, {100 * seconds / column.time.seconds_per_step:.1f}%"


def _hours(time: figures.Time, devices: int) -> str:
    between = time.time_range(time.seconds_total)
    return " to ".join(f"{seconds / 3600 * devices:,.2f}" for seconds in between)


def _steps(column: Estimate | figures.StageEstimate) -> int:
    if isinstance(column, figures.StageEstimate):
        return column.steps
    return sum(stage.steps for stage in column.stages)
