"""Differences between two programs, and what each setting costs. Loads no torch."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import mul
from pathlib import Path
from typing import Any

from bertc import BertcError, Resolved, estimate, resolve
from bertc.lab_api import RunFolder, Table, changed, points, units

REFUSED = "not alone"
ALONE = (
    "A setting's line: the first program with that one changed; without figures it follows from "
    "others.\nnot alone: it changes with another alone, is of one stage, which no option sets, or "
    "names files that are gone."
)
NOTE = "Memory and time of training on {device}."


@dataclass(frozen=True)
class Cost:
    """Figures of a program, one for each column of the table."""

    parameters: int
    forward_flops_per_token: float
    train_flops: int
    peak_bytes: int
    seconds_per_step: float


COLUMNS: tuple[tuple[str, Callable[[Cost], float], Callable[[float], str]], ...] = (
    ("parameters", lambda cost: cost.parameters, units.count_text),
    ("FLOPs a token", lambda cost: cost.forward_flops_per_token, units.flops_text),
    ("in training", lambda cost: cost.train_flops, units.flops_text),
    ("peak memory", lambda cost: cost.peak_bytes, units.bytes_text),
    ("a step", lambda cost: cost.seconds_per_step, units.duration_text),
)


@dataclass(frozen=True)
class Line:
    """One difference; ``alone`` is the first program's cost with no other, if that is a program.

    ``follows`` is true of a value that no one wrote, and that another setting decides.
    """

    name: str
    values: tuple[str, str]
    follows: bool
    alone: Cost | None


@dataclass(frozen=True)
class Difference:
    """Two programs by name with their costs, and the settings in which they differ."""

    names: tuple[str, str]
    costs: tuple[Cost, Cost]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]

    def table(self) -> Table:
        """Both programs, then each setting alone, with differences to the first program."""
        first, second = self.costs
        rows = [
            (*(text(of(cost)) for _, of, text in COLUMNS), name)
            for name, cost in zip(self.names, self.costs, strict=True)
        ]
        if [line.alone for line in self.lines] != [second]:  # else the setting's own line says it
            rows.append((*_changes(second, first), ""))
        for line in self.lines:
            empty = (None if line.follows else REFUSED, *[None] * (len(COLUMNS) - 1))
            shown = f"{line.name}: {' -> '.join(line.values)}"
            rows.append((*(_changes(line.alone, first) if line.alone else empty), shown))
        return Table((*(title for title, _, _ in COLUMNS), ""), rows, notes=self.notes)

    def as_table(self) -> str:
        """The table as text."""
        return str(self.table())

    def as_json(self) -> str:
        """All figures as JSON, in bytes, FLOPs and seconds."""
        facts: dict[str, Any] = {
            "schema": 1,
            "programs": [
                {"name": name, **vars(cost)}
                for name, cost in zip(self.names, self.costs, strict=True)
            ],
            "settings": [
                {
                    "setting": line.name,
                    "values": line.values,
                    "follows": line.follows,
                    "alone": vars(line.alone) if line.alone else None,
                }
                for line in self.lines
            ],
        }
        return json.dumps(facts, indent=2)


def diff(
    first: str, second: str, overrides: Sequence[str] = (), device: str = "h200"
) -> Difference:
    """Compare two programs, each a spec with ``overrides`` as in ``estimate``, or a run folder."""
    programs = [_program(spec, overrides) for spec in (first, second)]
    spec, settings = _as_written(first, overrides)
    lines, changes = dict[str, Line](), changed(*programs)
    alike = Counter((change.setting, change.texts()) for change in changes)
    for change in changes:
        values, follows = change.texts(), change.follows(*programs)
        # One that differs alike in several stages is one.
        name = change.setting if alike[change.setting, values] > 1 else change.name
        alone = None if follows else _program_with(spec, [*settings, f"{name}={values[1]}"])
        cost = cost_of(alone, device) if alone else None
        lines[name] = Line(name, values, follows, cost)
    return Difference(
        names=(first, second),
        costs=(cost_of(programs[0], device), cost_of(programs[1], device)),
        lines=(*lines.values(),),
        notes=(ALONE if lines else "no setting differs", NOTE.format(device=device)),
    )


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


def _changes(cost: Cost, first: Cost) -> list[str]:
    return [units.change_text(of(cost), of(first)) for _, of, _ in COLUMNS]
