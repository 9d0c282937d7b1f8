"""Grids: a value's alternatives, and one program for each combination of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod

from bertc.base.diagnostics import Diagnostics, Fix, Note, Span
from bertc.ir.written import Given, Program, StageGiven
from bertc.lang.read.shapes import setting_shape
from bertc.lang.read.tree import Call, Grid, Range, Scaled, Series, Sum, Value
from bertc.lang.write.show import show_value

MOST_POINTS, MOST_PARTS, PARTS_OF_STAGE = 1_000, 100_000, 40
"""Most programs that a grid may have, and most values in them, where a stage counts as 40."""


def num_points(value: Value) -> int:
    """The number of values that a written value stands for; at least 1."""
    match value:
        case Grid():
            return sum(num_points(choice) for choice in value.items)
        case Range():
            return 2
        case _:
            return prod(num_points(part) for part in inner_values(value)[0])


def num_parts(value: Value) -> int:
    """The number of values in one that a written value stands for, itself counted."""
    if isinstance(value, Grid):
        return max(map(num_parts, value.items), default=1)
    return 1 + sum(map(num_parts, inner_values(value)[0]))


def is_too_large(points: int, parts: int) -> bool:
    """True of a grid with more programs, or parts of all programs, than are made."""
    return points > MOST_POINTS or points * parts > MOST_PARTS > parts


def alternatives(value: Value) -> list[Value]:
    """The values that a written value stands for; the last grid varies fastest."""
    if isinstance(value, Grid):
        return [single for choice in value.items for single in alternatives(choice)]
    if isinstance(value, Range):
        return [value.low, value.high]
    parts, rebuild = inner_values(value)
    if not any(map(_has_grid, parts)):
        return [value]
    return [rebuild(list(chosen)) for chosen in product(*map(alternatives, parts))]


def _has_grid(value: Value) -> bool:
    return isinstance(value, Grid | Range) or any(map(_has_grid, inner_values(value)[0]))


def inner_values(value: Value) -> tuple[list[Value], Callable[[list[Value]], Value]]:
    """The values inside a value, and a function that rebuilds it from others."""
    match value:
        case Call():
            arguments = value.arguments

            def call(new: list[Value]) -> Value:
                replaced = (replace(a, value=v) for a, v in zip(arguments, new, strict=True))
                return replace(value, arguments=tuple(replaced))

            return [argument.value for argument in arguments], call
        case Series() | Sum():
            return list(value.items), lambda new: replace(value, items=tuple(new))
        case Scaled():
            return [value.factor, value.term], lambda by: replace(value, factor=by[0], term=by[1])
    return [], lambda new: value


@dataclass
class GridAxis:
    """A setting as written, with its typed values: several if it is a grid."""

    setting: str
    written: str
    span: Span
    choices: list[Given]
    grid: bool
    value: Value


@dataclass
class Scope:
    """The settings of a spec or of one block, by canonical name."""

    name: str = ""
    span: Span | None = None
    label: Span | None = None
    axes: dict[str, GridAxis] = field(default_factory=dict)


def combine(
    name: str,
    main: Scope,
    stages: Sequence[Scope],
    base: Program | None,
    diagnostics: Diagnostics,
    sampled: bool = False,
) -> list[Program]:
    """The programs of all points of the grids, the last varying fastest.

    ``sampled``: the first point, those that differ from it in one axis, and the last.
    """
    scopes = (main, *stages)
    axes = [(s, axis) for s, scope in enumerate(scopes) for axis in scope.axes.values()]
    axes = [(s, axis) for s, axis in axes if axis.choices]
    sizes = [len(axis.choices) for _, axis in axes if axis.grid]
    count = sum(sizes) if sampled else prod(sizes)
    depth = len(stages) or (len(base.stages) if base else 0)
    parts = PARTS_OF_STAGE * max(1, depth) + sum(num_parts(axis.value) for _, axis in axes)
    spelled = not is_too_large(count, parts)
    if not spelled:
        span = next(axis.span for _, axis in axes if axis.grid)
        too_many_points(count, parts, span, diagnostics)
    fixed = [(s, axis) for s, axis in axes if not (axis.grid and spelled)]
    free = [(s, axis) for s, axis in axes if axis.grid and spelled]
    labels = []
    for s, axis in free:  # ``E=64``, ``long.seq=512``
        name_of = f"{scopes[s].name}.{axis.written}" if scopes[s].name else axis.written
        shape = setting_shape(axis.setting)
        labels.append([f"{name_of}={show_value(c.value, shape)}" for c in axis.choices])
    programs = []
    indices = [range(len(axis.choices)) for _, axis in free]
    for chosen in _samples(indices) if sampled else product(*indices):
        settings: list[dict[str, Given]] = [{} for _ in scopes]
        for s, axis in fixed:
            settings[s][axis.setting] = axis.choices[0]
        for (s, axis), index in zip(free, chosen, strict=True):
            settings[s][axis.setting] = axis.choices[index]
        point = " ".join(texts[index] for texts, index in zip(labels, chosen, strict=True))
        phases = zip(stages, settings[1:], strict=True)
        given_stages = tuple(StageGiven(stage.name, values, stage.span) for stage, values in phases)
        programs.append(Program(point or name, settings[0], given_stages, base))
    return programs


def _samples(indices: Sequence[range]) -> Iterator[tuple[int, ...]]:
    first = tuple(choices[0] for choices in indices)
    yield first
    for place, choices in enumerate(indices):
        yield from ((*first[:place], index, *first[place + 1 :]) for index in choices[1:])
    if len(indices) > 1:
        yield tuple(choices[-1] for choices in indices)


def too_many_points(count: int, parts: int, span: Span, diagnostics: Diagnostics) -> None:
    """Report a grid with too many points for the parts of each."""
    number = f"{count:,}" if count < 10**15 else "over 10^15"
    most = min(MOST_POINTS, MOST_PARTS // parts)
    diagnostics.error(
        "E113",
        f"a grid of {number} specs; at most {most:,} {'so large ' * (most < MOST_POINTS)}are made",
        span,
        help="write fewer alternatives, or several specs",
    )


LOG = "log"
"""The scale of a range that is drawn from by its logarithm."""


def ranges(value: Value, in_braces: bool = False) -> Iterator[tuple[Range, bool]]:
    """The ranges within a value, and of each whether it stands in braces."""
    match value:
        case Range():
            yield value, in_braces
        case Grid():
            for choice in value.items:
                yield from ranges(choice, True)
        case _:
            for part in inner_values(value)[0]:
                yield from ranges(part)


def check_ranges(value: Value, name: str, diagnostics: Diagnostics, *, searched: bool) -> None:
    """Report ranges that are none, and all of them where no search draws values from them."""
    for written, in_braces in ranges(value):
        low, high, label = written.low, written.high, ""
        ends, scale = f"{low.text}..{high.text}", f":{written.scale}" if written.scale else ""
        if low.value is None or high.value is None:
            continue  # reported when they were read
        if low.value >= high.value:
            turned = f"{high.text}..{low.text}{scale}"
            wrong, instead = f"from {low.text} to {high.text}", turned
            if low.value == high.value:
                instead = low.text
        elif written.scale not in ("", LOG):
            wrong, instead = f"on a scale `{written.scale[:20]}`", f"{ends}:{LOG}"
        elif written.scale and low.value <= 0:
            wrong, instead = f"on a logarithmic scale from {low.text}", ends
        elif not in_braces:
            wrong, instead = "without braces", f"{{{ends}{scale}}}"
        elif not searched:
            wrong, instead = "where one value is needed", f"{low.text}, {high.text}"
            label = "`bertc sweep` draws values from it"
        else:
            continue
        message = f"`{name}` has a range {wrong}"
        notes = () if label else (Note("a range is {2..12}, {0..0.3} or {1e-5..1e-3:log}"),)
        fix = Fix(written.span, instead)
        diagnostics.error("E116", message, written.span, label=label, notes=notes, fix=fix)
