"""Differences between two programs, and the share of each setting in them. Loads no torch."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from operator import mul
from pathlib import Path
from typing import Any, NamedTuple

from bertc import BertcError, Resolved, estimate, resolve
from bertc.lab.results.curves import XAxis, curves
from bertc.lab.search.goal import LOSS, goal_of
from bertc.lab_api import RunFolder, Table, changed, points, units

REST = "the rest"
ORDER = (
    "A setting's line is its share: what the program costs more once it is changed too, after "
    "those above it.\nThe shares sum to the difference; another order gives others. Settings in "
    "one line are a program only\ntogether; one without figures follows from others."
)
NOTE = "Memory and time of training on {device}."
OF_LOSS = {"vocab", "data", "objective"}
"""Settings whose values have to be the same where losses are compared."""
AXES: Mapping[XAxis, Callable[[float], str]] = {
    "seconds": units.duration_text,
    "flops": units.flops_text,
}
"""Equal amounts at which two runs are compared."""


class Cost(NamedTuple):
    """Figures of a program, or the difference of two: one for each column of the table."""

    parameters: float
    forward_flops_per_token: float
    train_flops: float
    peak_bytes: float
    seconds_per_step: float


COLUMNS: Mapping[str, Callable[[float], str]] = {
    "parameters": units.count_text, "FLOPs a token": units.flops_text,
    "FLOPs in all": units.flops_text, "peak memory": units.bytes_text,
    "a step": units.duration_text,
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """Settings that are changed together, by their values in both programs, and their share.

    ``share`` is None of a value that no one wrote, and that another setting decides.
    """

    values: Mapping[str, tuple[str, str]]
    share: Cost | None

    @property
    def text(self) -> str:
        """The settings with their values."""
        return ", ".join(f"{n}: {' -> '.join(v)}" for n, v in self.values.items()) or REST


class Reached(NamedTuple):
    """The held-out losses of two runs when both have taken ``most`` seconds or FLOPs."""

    axis: XAxis
    most: float
    losses: tuple[float, float]


@dataclass(frozen=True)
class Difference:
    """Two programs by name with their costs, and the settings in which they differ."""

    names: tuple[str, str]
    costs: tuple[Cost, Cost]
    lines: tuple[Line, ...]
    reached: tuple[Reached, ...]
    device: str
    changed_lines: tuple[str, ...]  # of files of the user's classes

    def table(self) -> Table:
        """Both programs, their difference, and the share of each setting in it."""
        rows = [(*_texts(cost), name) for name, cost in zip(self.names, self.costs, strict=True)]
        if self.lines:
            rows.append((*_texts(_minus(*reversed(self.costs)), signed=True), "difference"))
        for line in self.lines:
            empty = (None,) * len(COLUMNS)
            rows.append((*(_texts(line.share, signed=True) if line.share else empty), line.text))
        notes = [
            *self.changed_lines,
            ORDER if self.lines else "no setting differs",
            NOTE.format(device=self.device),
        ]
        for axis, most, (one, other) in self.reached:
            away = f"{one:.3f} and {other:.3f} ({other - one:+.3f})"
            notes.append(f"Held-out loss after {AXES[axis](most)}: {away}.")
        return Table((*COLUMNS, ""), rows, notes=notes)

    def as_table(self) -> str:
        """The table as text."""
        return str(self.table())

    def as_json(self) -> str:
        """All figures as JSON, in bytes, FLOPs and seconds."""
        programs = zip(self.names, self.costs, strict=True)
        facts: dict[str, Any] = {
            "schema": 2,
            "programs": [{"name": name, **cost._asdict()} for name, cost in programs],
            "settings": [
                {"values": line.values, "share": line.share and line.share._asdict()}
                for line in self.lines
            ],
            "losses": [reached._asdict() for reached in self.reached],
            **({"changed_lines": self.changed_lines} if self.changed_lines else {}),
        }
        return json.dumps(facts, indent=2)


def diff(
    first: str, second: str, overrides: Sequence[str] = (), device: str = "h200"
) -> Difference:
    """Compare two programs, each a spec with ``overrides`` as in ``estimate``, or a run folder."""
    programs = [_program(spec, overrides) for spec in (first, second)]
    costs = cost_of(programs[0], device), cost_of(programs[1], device)
    changes = changed(*programs)
    alike = Counter((change.setting, change.texts()) for change in changes)
    written, following = dict[str, tuple[str, str]](), dict[str, tuple[str, str]]()
    for change in changes:
        # One that differs alike in several stages is one.
        several = alike[change.setting, change.texts()] > 1
        settings = following if change.follows(*programs) else written
        settings[change.setting if several else change.name] = change.texts()
    shares = _shares(*_as_written(first, overrides), written, costs, device)
    is_run = Path(first).is_dir() and Path(second).is_dir()
    comparable = is_run and not OF_LOSS & {change.setting for change in changes}
    return Difference(
        names=(first, second), costs=costs,
        lines=(*shares, *(Line({name: values}, None) for name, values in following.items())),
        reached=(*_reached(Path(first), Path(second)),) if comparable else (), device=device,
        changed_lines=changes[0].lines if changes else (),
    )  # fmt: skip


def _shares(
    spec: str, done: list[str], values: Mapping[str, tuple[str, str]], costs: tuple[Cost, Cost],
    device: str,
) -> Iterator[Line]:  # fmt: skip
    """The share of each setting, in order; one that is no program yet waits for the next."""
    before, last = costs
    waiting = list[str]()
    for name in values:
        waiting.append(name)
        for together in dict.fromkeys([(*waiting,), (name,)]):
            settings = [*done, *(f"{n}={values[n][1]}" for n in together)]
            if program := _program_with(spec, settings):
                cost = cost_of(program, device)
                yield Line({n: values[n] for n in together}, _minus(cost, before))
                done, before = settings, cost
                waiting = [other for other in waiting if other not in together]
                break
    if waiting or before != last:
        yield Line({name: values[name] for name in waiting}, _minus(last, before))


def _reached(*runs: Path) -> Iterator[Reached]:
    """The losses of two runs at equal time and at equal FLOPs, between evaluations on a line."""
    import numpy as np

    lines = [curves(run) for run in runs]
    goals = [goal_of(LOSS, RunFolder(run).read_resolved()) for run in runs]
    for axis in AXES:
        ways = [
            one.of(goal.figure(one.names), axis) for one, goal in zip(lines, goals, strict=True)
        ]
        if all(places for places, _ in ways):
            most = min(places[-1] for places, _ in ways)
            one, other = (float(np.interp(most, *way)) for way in ways)
            yield Reached(axis, most, (one, other))


def _program(spec: str, overrides: Sequence[str]) -> Resolved:
    if Path(spec).is_dir():
        return RunFolder(Path(spec)).read_resolved()
    return resolve(spec, overrides)


def _as_written(spec: str, overrides: Sequence[str]) -> tuple[str, list[str]]:
    """A spec and its overrides; those of a run are in its folder."""
    if Path(spec).is_dir():
        run = RunFolder(Path(spec))
        return str(run.spec), run.overrides()
    return spec, [*overrides]


def _program_with(spec: str, overrides: Sequence[str]) -> Resolved | None:
    """The program of a spec with settings; None if there is none."""
    try:
        (program,) = points(spec, overrides)
    except BertcError:  # or a file that a run's spec names is no longer there
        return None
    return program


def cost_of(resolved: Resolved, device: str) -> Cost:
    """The figures of a program."""
    cost = estimate(resolved, device)
    # Mean tokens of an example over all stages, which FLOPs of a forward pass are of.
    examples = [stage.steps * stage.batch for stage in cost.stages]
    read = sum(map(mul, examples, (stage.row_tokens for stage in cost.stages)))
    return Cost(
        parameters=cost.parameters.total,
        forward_flops_per_token=cost.flops.forward_per_example * sum(examples) / read,
        train_flops=cost.flops.train_total,
        peak_bytes=cost.memory.peak_bytes,
        seconds_per_step=cost.time.seconds_per_step,
    )


def _minus(cost: Cost, other: Cost) -> Cost:
    pairs = zip(cost, other, strict=True)
    return Cost(*(0.0 if isclose(a, b, rel_tol=1e-12) else a - b for a, b in pairs))


def _texts(cost: Cost, *, signed: bool = False) -> list[str]:
    """The figures with their units; of a difference with a sign, = for none."""
    texts = [text(abs(value)) for text, value in zip(COLUMNS.values(), cost, strict=True)]
    signs = [("-" if value < 0 else "+") if signed else "" for value in cost]
    pairs = zip(signs, texts, cost, strict=True)
    return [f"{sign}{text}" if value or not signed else "=" for sign, text, value in pairs]
