"""The space that a spec with ranges and lists spans, and the program at each of its points."""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from math import floor, log10
from typing import Any, NamedTuple

from bertc.base.diagnostics import Diagnostics, Span
from bertc.ir.program import Program
from bertc.ir.program.settings import canonical
from bertc.lang.load import Written, load, read_spec
from bertc.lang.lowering.grids import LOG, inner_values
from bertc.lang.lowering.lower import lower_tree
from bertc.lang.read import tree
from bertc.lang.read.numbers import show_number
from bertc.lang.read.shapes import setting_shape
from bertc.lang.write.format import flat
from bertc.lang.write.show import show_value

DIGITS = 4
"""Significant digits of values that are drawn from a range."""


class Interval(NamedTuple):
    """A range of whole numbers or of reals, both ends included."""

    name: str
    low: float
    high: float
    log: bool
    whole: bool


class Options(NamedTuple):
    """A list of values, each as written."""

    name: str
    texts: tuple[str, ...]


Dimension = Interval | Options
Draw = Callable[[Dimension], float | str]
"""A function that chooses a value: a number of an interval, or one of the options' texts."""


class SpacePoint(NamedTuple):
    """A point of a space: its program, and the settings that were chosen, as written."""

    program: Program
    settings: tuple[str, ...]


@dataclass(frozen=True)
class Space:
    """A spec whose ranges and lists are to be chosen from."""

    written: Written
    dimensions: dict[Span, Dimension]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all dimensions, in the order of the text."""
        return tuple(dimension.name for dimension in self.dimensions.values())

    def point(self, draw: Draw) -> SpacePoint:
        """The program of the values that ``draw`` chooses; within others nothing is drawn.

        Raises:
            SpecError: if the language refuses a value; the passes have not run yet.
        """
        diagnostics, it = Diagnostics(), self.written
        trees = [
            replace(read, items=tuple(self._item(item, draw) for item in read.items))
            for read in (it.tree, *it.overrides)
        ]
        (program,) = lower_tree(trees[0], diagnostics, it.title, it.base, trees[1:])
        diagnostics.raise_if_any()
        settings = tuple(self._settings(trees, program))
        return SpacePoint(replace(program, name=" ".join(settings) or it.title), settings)

    def _item(self, item: tree.Item, draw: Draw) -> tree.Item:
        match item:
            case tree.Setting():
                return replace(item, value=self._value(item.value, draw))
            case tree.Block():
                return replace(item, items=tuple(self._item(inner, draw) for inner in item.items))
            case _:
                return item

    def _value(self, value: tree.Value, draw: Draw) -> tree.Value:
        match self.dimensions.get(value.span), value:
            case Interval() as interval, tree.Range():
                number = _round(float(draw(interval)), interval)
                return tree.Number(value.span, show_number(number), number)
            case Options() as options, tree.Grid():
                return self._value(value.items[options.texts.index(str(draw(options)))], draw)
            case _, tree.Grid(items=(part,)) if self._varies(part):
                return self._value(part, draw)
        parts, rebuild = inner_values(value)
        return rebuild([self._value(part, draw) for part in parts])

    def _settings(self, trees: Iterable[tree.Tree], program: Program) -> Iterator[str]:
        """The settings with a dimension, each with its whole value, in the order of the text."""
        for item in (item for read in trees for item in read.items if self._varies(item)):
            match item:
                case tree.Setting():
                    yield f"{item.name.text}={flat(item.value)}"
                case tree.Block(label=tree.String(value=stage)):
                    for inner in item.items:
                        if isinstance(inner, tree.Setting) and self._varies(inner):
                            yield f"{stage}.{inner.name.text}={flat(inner.value)}"
                case tree.Block():
                    name = canonical(item.name.text)
                    value = show_value(program.settings[name].value, setting_shape(name))
                    yield f"{item.name.text}={value}"

    def _varies(self, item: tree.Placed) -> bool:
        place = item.span
        return any(
            span.source == place.source and place.start <= span.start and span.end <= place.end
            for span in self.dimensions
        )


def space(spec: str, overrides: Sequence[str] = ()) -> Space:
    """The space that a spec spans; without ranges and lists it has one point.

    Raises:
        SpecError: if the language refuses a value, at either end of a range.
        MissingInputError, UsageError: as ``load``.
    """
    diagnostics = Diagnostics()
    written = read_spec(spec, overrides, diagnostics)
    samples = load(written, (), diagnostics, searched=True)
    diagnostics.raise_if_any()
    forced = {canonical(item.name.text) for read in written.overrides for item in read.settings()}
    places = [place for item in written.tree.items for place in _places(item, "", forced)]
    sets = (item for read in written.overrides for item in read.items)
    places += [place for item in sets for place in _places(item, "", set())]
    integers = {place for sample in samples for place in _whole_places(sample)}
    names, dimensions = dict[str, int](), dict[Span, Dimension]()
    for name, value in places:
        names[name] = again = names.get(name, 0) + 1
        unique = name if again == 1 else f"{name}#{again}"
        match value:
            case tree.Range():
                low, high = float(value.low.value or 0), float(value.high.value or 0)
                of_whole = {value.low.span, value.high.span} <= integers
                dimensions[value.span] = Interval(unique, low, high, value.scale == LOG, of_whole)
            case tree.Grid():
                texts = tuple(choice.span.text for choice in value.items)
                dimensions[value.span] = Options(unique, texts)
    return Space(written, dimensions)


def _places(
    item: tree.Item, prefix: str, forced: Set[str]
) -> Iterator[tuple[str, tree.Range | tree.Grid]]:
    """The ranges and lists within an item, but of ``forced`` settings; named by their place."""
    match item:
        case tree.Setting() if canonical(item.name.text) not in forced:
            yield from _within(item.value, f"{prefix}{item.name.text}")
        case tree.Block():
            label = item.label.value if item.label else item.name.text
            for inner in item.items:
                yield from _places(inner, f"{prefix}{label}.", forced)


def _within(value: tree.Value, name: str) -> Iterator[tuple[str, tree.Range | tree.Grid]]:
    match value:
        case tree.Range():
            yield name, value
        case tree.Grid():
            if len(value.items) > 1:
                yield name, value
            for choice in value.items:
                yield from _within(choice, name)
        case tree.Call():
            for argument in value.arguments:
                inner = f"{name}.{argument.name.text}" if argument.name else name
                yield from _within(argument.value, inner)
        case tree.Scaled():
            yield from _within(value.factor, f"{name}.weight")
            yield from _within(value.term, name)
        case _:
            for part in inner_values(value)[0]:
                yield from _within(part, name)


def _whole_places(program: Program) -> Iterator[Span]:
    """The places of all values that are whole numbers, once they have a type."""
    for setting in (setting for block in program.blocks for setting in block.values()):
        for path, span in setting.origin.parts.items():
            value: Any = setting.value
            for step in path:
                value = value[step] if isinstance(step, int) else getattr(value, step, None)
            if type(value) is int:
                yield span


def _round(number: float, interval: Interval) -> float:
    """A number of a few digits, within its interval; whole numbers are whole already."""
    if interval.whole or number == 0:
        return int(number)
    rounded = round(number, DIGITS - 1 - floor(log10(abs(number))))
    return min(max(rounded, interval.low), interval.high)
