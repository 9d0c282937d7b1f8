"""Estimates for people: one in detail, several side by side, and as JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bertc.estimate.devices import device_named
from bertc.estimate.figures import Estimate, StageEstimate
from bertc.estimate.units import bytes_text, change_text, count_text, duration_text, flops_text

if TYPE_CHECKING:
    from rich.table import Table

WIDTH = 118
PARTS = ("embeddings", "attention", "ffn", "norm", "pooler", "head")


def as_json(estimates: Sequence[Estimate]) -> str:
    """One estimate as its JSON object, several as the points of one object."""
    if len(estimates) == 1:
        return json.dumps(estimates[0].as_json(), indent=2)
    return json.dumps({"schema": 1, "points": [one.as_json() for one in estimates]}, indent=2)


def as_table(estimates: Sequence[Estimate], color: bool = False) -> str:
    """One estimate by stage and part; several side by side, with differences to the first."""
    from rich.console import Console

    console = Console(
        file=io.StringIO(), width=WIDTH, force_terminal=color, no_color=not color, highlight=False
    )
    table = details(estimates[0]) if len(estimates) == 1 else comparison(estimates)
    with console.capture() as text:
        console.print(table)
        console.print(assumptions(estimates[0]), style="dim")
    return text.get().rstrip()


def assumptions(estimate: Estimate) -> str:
    """What the figures rest on."""
    target = device_named(estimate.time.device)
    return (
        f"FLOPs: {estimate.flops.convention} convention. Time: {target.name} at an assumed MFU of "
        f"{target.mfu:g} ({target.mfu_source}). Memory: at the micro-batch shown."
    )


def details(estimate: Estimate) -> Table:
    """A column for the whole run, and one a stage where there are several."""
    from rich.table import Table

    stages = estimate.stages if len(estimate.stages) > 1 else ()
    columns: tuple[Estimate | StageEstimate, ...] = (estimate, *stages)
    table = Table(title=f"{estimate.name}  {estimate.fingerprint[:12]}", title_justify="left")
    table.add_column("")
    table.add_column("whole run" if stages else "", justify="right")
    for stage in stages:
        table.add_column(f"stage {stage.name}", justify="right")
    for section in _sections(columns):
        for label, text in section:
            table.add_row(label, *(text(column) for column in columns))
        table.add_section()
    return table


Row = tuple[str, Callable[[Estimate | StageEstimate], str]]


def _sections(columns: Sequence[Estimate | StageEstimate]) -> list[list[Row]]:
    parts = [part for part in PARTS if part in columns[0].parameters.by_part]

    def part_row(part: str) -> Row:
        return (part, lambda c: count_text(c.parameters.by_part.get(part, 0)))

    return [
        [
            *(part_row(part) for part in parts),
            ("encoder", lambda c: f"{c.parameters.encoder:,}"),
            ("total", lambda c: f"{c.parameters.total:,}"),
            ("applied", lambda c: f"{c.parameters.applied:,}"),
        ],
        [
            ("steps", lambda c: f"{_steps(c):,}"),
            ("forward, an example", lambda c: flops_text(c.flops.forward_per_example)),
            ("training, a step", lambda c: flops_text(c.flops.train_per_step)),
            ("training, in all", lambda c: flops_text(c.flops.train_total)),
        ],
        [
            ("weights", lambda c: bytes_text(c.memory.weights_bytes)),
            ("gradients", lambda c: bytes_text(c.memory.gradients_bytes)),
            ("optimiser", lambda c: bytes_text(c.memory.optimizer_bytes)),
            ("activations", lambda c: bytes_text(c.memory.activations_bytes)),
            ("peak", lambda c: bytes_text(c.memory.peak_bytes)),
            ("micro-batch", lambda c: f"{c.memory.microbatch:,}"),
            ("largest that fits", lambda c: f"{c.memory.largest_microbatch:,}"),
        ],
        [
            ("a step", lambda c: duration_text(c.time.seconds_per_step)),
            ("in all", lambda c: duration_text(c.time.seconds_total)),
            ("device hours", lambda c: f"{c.time.hours:,.2f}"),
        ],
    ]


def comparison(estimates: Sequence[Estimate]) -> Table:
    """A row for each estimate, with differences to the first."""
    from rich.table import Table

    table = Table()
    table.add_column("", overflow="fold")
    figures: tuple[tuple[str, Callable[[Estimate], float], Callable[[float], str]], ...] = (
        ("encoder", lambda e: e.parameters.encoder, count_text),
        ("with heads", lambda e: e.parameters.total, count_text),
        ("train FLOPs", lambda e: e.flops.train_total, flops_text),
        ("peak memory", lambda e: e.memory.peak_bytes, bytes_text),
        ("time", lambda e: e.time.seconds_total, duration_text),
    )
    for label, _, _ in figures:
        table.add_column(label, justify="right", no_wrap=True)
        table.add_column("", justify="right", no_wrap=True)
    for one in estimates:
        cells = [
            cell
            for _, figure, text in figures
            for cell in (text(figure(one)), change_text(figure(one), figure(estimates[0])))
        ]
        table.add_row(one.name, *cells)
    return table


def _steps(column: Estimate | StageEstimate) -> int:
    if isinstance(column, StageEstimate):
        return column.steps
    return sum(stage.steps for stage in column.stages)
