"""Estimates as text: one in detail, several side by side, and as JSON.

Plain text: a table library would take three times as long as the estimate itself.
"""

import json
from collections.abc import Callable, Sequence

from bertc.base.diagnostics import InNotebooks, Table
from bertc.cost.figures import Flops, Parameters, StageEstimate, Time, Totals
from bertc.cost.sharing import TALK_SOURCE
from bertc.cost.units import bytes_text, change_text, count_text, duration_text, flops_text

LABEL, COLUMN = 22, 16
PARTS = ("embeddings", "attention", "ffn", "recurrence", "norm", "pooler", "head")


class Estimate(Totals, InNotebooks):
    """Cost of a whole program, which prints as its table, in text and in notebooks."""

    def __str__(self) -> str:
        """The table that ``bertc estimate`` prints."""
        return as_table([self])

    def __repr__(self) -> str:
        """The same table, for a Python shell."""
        return str(self)

    def tables(self) -> tuple[Table]:
        """The same figures as a table, for notebooks."""
        return (table_of(self),)


def as_json(estimates: Sequence[Totals], *, where: bool = False) -> str:
    """One estimate as its JSON object, several as the points of one object."""
    found = [one.as_json(where=where) for one in estimates]
    if len(found) == 1:
        return json.dumps(found[0], indent=2)
    return json.dumps({"schema": 1, "points": found}, indent=2)


def as_table(estimates: Sequence[Totals]) -> str:
    """One estimate by part and stage, or several side by side with differences to the first."""
    lines = details(estimates[0]) if len(estimates) == 1 else comparison(estimates)
    fitting = (_does_not_fit(one) for one in estimates)
    return "\n".join((*lines, "", *filter(None, fitting), *assumptions(estimates[0])))


def table_of(estimate: Totals) -> Table:
    """One estimate by part and stage, with its assumptions below."""
    columns = _columns(estimate)
    rows = list[Sequence[str]]()
    for title, lines in _sections(columns, estimate):
        rows.append((title,))
        rows += [(label, *(text(column) for column in columns)) for label, text in lines]
    below = (
        *_beside_from_start(estimate),
        *_left_after_pruning(estimate),
        _does_not_fit(estimate),
        *assumptions(estimate),
    )
    head = ("", *_titles(estimate))
    title = f"{estimate.name} on {estimate.time.device}"
    return Table(head, rows, title, tuple(filter(None, below)))


def _columns(estimate: Totals) -> tuple[Totals | StageEstimate, ...]:
    return (estimate, *(estimate.stages if len(estimate.stages) > 1 else ()))


def _titles(estimate: Totals) -> list[str]:
    stages = estimate.stages if len(estimate.stages) > 1 else ()
    return ["whole run", *(f"stage {stage.name}" for stage in stages)]


def _does_not_fit(estimate: Totals) -> str:
    if estimate.memory.largest_microbatch:
        return ""
    return f"{estimate.name} does not fit on {estimate.time.device}, not with one example at once."


def assumptions(estimate: Totals) -> tuple[str, ...]:
    """The assumptions behind the figures, a line each."""
    spread = estimate.spread
    time = estimate.time
    messages = ", messages counted," if spread else ""
    return (
        *(
            (
                f"{spread.strategy} on {spread.devices} devices; memory is that of one device, "
                "weights and gradients in flight included.",
                TALK_SOURCE,
            )
            if spread
            else ()
        ),
        *(
            f"Stage {stage.name} keeps what its frozen networks say of each example on disk, "
            f"{bytes_text(stage.kept_bytes)}: FLOPs and time have it computed once (teacher_cache, "
            "features_cache)."
            for stage in estimate.stages
            if stage.kept_bytes
        ),
        *(
            f"Stage {stage.name} reads rows of {stage.row_tokens:,} tokens on average, of at most "
            f"{stage.seq:,}: so for FLOPs and time, while memory is of full ones."
            for stage in estimate.stages
            if stage.row_tokens < stage.seq
        ),
        f"FLOPs in the {estimate.flops.convention} convention; memory at the largest micro-batch "
        "that fits, or at the spec's own;",
        "peak memory is the maximum during a step, not the sum of its parts.",
        f"Time on {time.device} without evaluations, products at {time.product_share:.2g} of the "
        f"peak: in {estimate.name}{messages} an MFU of {time.assumed_mfu:.2g}.",
        time.basis,
    )


def details(estimate: Totals) -> list[str]:
    """A column for the whole run, and one per stage if there are several."""
    columns = _columns(estimate)
    titles = _titles(estimate)
    lines = [f"{estimate.name}  {estimate.fingerprint[:12]}"]
    sections = [
        (title, [(label, [text(column) for column in columns]) for label, text in rows])
        for title, rows in _sections(columns, estimate)
    ]
    texts = (cell for _, rows in sections for _, cells in rows for cell in cells)
    width = max(COLUMN, 2 + max(map(len, (*titles, *texts))))
    lines.append(" " * LABEL + "".join(title.rjust(width) for title in titles))
    for title, rows in sections:
        lines += ["", title]
        for label, cells in rows:
            lines.append(f"  {label}".ljust(LABEL) + "".join(cell.rjust(width) for cell in cells))
    return lines + _beside_from_start(estimate) + _left_after_pruning(estimate)


def _beside_from_start(estimate: Totals) -> list[str]:
    """A comparison with training the last stage's network from the start."""
    deep, flops = estimate.from_start, estimate.flops.train_total
    if deep is None:
        return []
    saved = change_text(flops, deep.flops_total)
    return [
        "",
        f"with {deep.layers} layers from the start",
        f"  the same {_steps(estimate):,} steps: {flops_text(deep.flops_total)}, "
        f"{duration_text(deep.seconds_total)}; growing takes {saved} FLOPs, "
        f"{change_text(estimate.time.seconds_total, deep.seconds_total)} time",
        f"  the same FLOPs: {deep.steps_of_same_flops:,} steps, "
        f"{duration_text(deep.seconds_of_same_flops)}",
    ]


def _left_after_pruning(estimate: Totals) -> list[str]:
    """Size and cost of the network at the end of a run that prunes, beside those before."""
    left = estimate.pruned
    if left is None:
        return []
    before = estimate.stages[-1].flops.forward_per_example
    return [
        "",
        "left when the run ends, after pruning",
        f"  parameters: {left.parameters:,}, "
        f"{change_text(left.parameters, estimate.parameters.total)}",
        f"  forward, an example: {flops_text(left.forward_per_example)}, "
        f"{change_text(left.forward_per_example, before)}",
    ]


Row = tuple[str, Callable[[Totals | StageEstimate], str]]


def _parameter_rows(first: Totals | StageEstimate, whole: Totals) -> list[Row]:
    """Rows of the parameters: parts, the encoder, and totals."""

    def part_row(part: str) -> Row:
        return (part, lambda c: count_text(c.parameters.by_part.get(part, 0)))

    generator: Row = ("generator, beside it", lambda c: f"{c.parameters.generator:,}")
    frozen: Row = ("frozen, beside it", lambda c: f"{c.parameters.frozen:,}")
    ratio: Row = ("encoder of frozen", lambda c: _ratio(c.parameters))
    return [
        *(part_row(part) for part in PARTS if part in first.parameters.by_part),
        ("encoder", lambda c: f"{c.parameters.encoder:,}"),
        *([generator] if whole.parameters.generator else []),
        *([frozen, ratio] if whole.parameters.frozen else []),
        ("total", lambda c: f"{c.parameters.total:,}"),
        ("applied", lambda c: f"{c.parameters.applied:,}"),
    ]


def _ratio(parameters: Parameters) -> str:
    return f"{parameters.encoder / parameters.frozen:.0%}" if parameters.frozen else ""


def _frozen_flops() -> list[Row]:
    """Rows of what frozen networks take of a forward pass, and of how much the others need."""

    def of_frozen(flops: Flops) -> str:
        own, frozen = flops.forward_per_example, flops.frozen_per_example
        return f"{(own - frozen) / frozen:.0%}" if frozen else ""

    return [
        ("frozen, of it", lambda c: flops_text(c.flops.frozen_per_example)),
        ("the rest of frozen", lambda c: of_frozen(c.flops)),
    ]


def _sections(
    columns: Sequence[Totals | StageEstimate], whole: Totals
) -> list[tuple[str, list[Row]]]:
    spread, devices = whole.spread, whole.spread.devices if whole.spread else 1
    update: Row = ("optimiser, of it", lambda c: flops_text(c.flops.update_per_step))
    average: Row = ("averages, of it", lambda c: bytes_text(c.memory.average_bytes))
    averaged = any(stage.memory.average_bytes for stage in whole.stages)
    talk: list[Row] = []
    if spread:
        talk = [("messages, a step", lambda c: duration_text(spread.communication_seconds))]
    return [
        ("parameters", _parameter_rows(columns[0], whole)),
        (
            "FLOPs",
            [
                ("steps", lambda c: f"{_steps(c):,}"),
                ("forward, an example", lambda c: flops_text(c.flops.forward_per_example)),
                *(_frozen_flops() if whole.flops.frozen_per_example else []),
                ("training, a step", lambda c: flops_text(c.flops.train_per_step)),
                *([update] if whole.flops.update_per_step else []),
                ("training, in all", lambda c: flops_text(c.flops.train_total)),
            ],
        ),
        (
            "memory",
            [
                ("weights", lambda c: bytes_text(c.memory.weights_bytes)),
                ("gradients", lambda c: bytes_text(c.memory.gradients_bytes)),
                ("optimiser", lambda c: bytes_text(c.memory.optimizer_bytes)),
                *([average] if averaged else []),
                ("activations", lambda c: bytes_text(c.memory.activations_bytes)),
                ("peak", lambda c: bytes_text(c.memory.peak_bytes)),
                ("micro-batch", lambda c: f"{c.memory.microbatch:,}"),
                ("largest that fits", lambda c: f"{c.memory.largest_microbatch:,}"),
                ("layers recomputed", lambda c: "yes" if c.memory.recompute else "no"),
            ],
        ),
        (
            "time",
            [
                ("a step", lambda c: c.time.step_text),
                ("in all", lambda c: c.time.total_text),
                *talk,
                (
                    "device hours",
                    lambda c: _hours(c.time, devices),
                ),
            ],
        ),
    ]


def _hours(time: Time, devices: int) -> str:
    return " to ".join(f"{hours * devices:,.2f}" for hours in time.hours_range)


def comparison(estimates: Sequence[Totals]) -> list[str]:
    """A row for each estimate, with differences to the first."""
    several = len(set(map(_steps, estimates))) > 1
    figures: tuple[tuple[str, Callable[[Totals], float], Callable[[Totals], str]], ...] = (
        ("encoder", lambda e: e.parameters.encoder, lambda e: count_text(e.parameters.encoder)),
        ("with heads", lambda e: e.parameters.total, lambda e: count_text(e.parameters.total)),
        *((("steps", _steps, lambda e: f"{_steps(e):,}"),) if several else ()),
        ("training", lambda e: e.flops.train_total, lambda e: flops_text(e.flops.train_total)),
        ("peak memory", lambda e: e.memory.peak_bytes, lambda e: bytes_text(e.memory.peak_bytes)),
        ("time", lambda e: e.time.seconds_total, lambda e: e.time.total_text),
    )
    rows = [["", *(cell for label, _, _ in figures for cell in (label, ""))]]
    for one in estimates:
        cells = ((text(one), change_text(of(one), of(estimates[0]))) for _, of, text in figures)
        rows.append([one.name, *(cell for pair in cells for cell in pair)])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            (
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            )
        ).rstrip()
        for row in rows
    ]


def _steps(column: Totals | StageEstimate) -> int:
    if isinstance(column, StageEstimate):
        return column.steps
    return sum(stage.steps for stage in column.stages)
