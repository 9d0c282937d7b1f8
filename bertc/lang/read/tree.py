"""The tree of a text: settings, blocks and values with their spans, names not yet resolved.

Trees that differ only in spans are equal.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bertc.base.diagnostics import Source, Span


@dataclass(frozen=True)
class Placed:
    """The base of all nodes: anything with a place in the text."""

    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True)
class Number(Placed):
    """A number as written and its value; ``15%`` is 0.15, ``30k`` is 30000.

    ``value`` is None if the text is not a number, which the scanner has reported. ``unit`` is the
    word after it: ``3G tokens``.
    """

    text: str
    value: int | float | None
    unit: str = ""


@dataclass(frozen=True)
class Name(Placed):
    """A word: a kind without arguments, a choice, ``true`` or ``false``."""

    text: str


@dataclass(frozen=True)
class String(Placed):
    """A quoted string, escapes resolved."""

    value: str


@dataclass(frozen=True)
class Argument(Placed):
    """A value in a call, with or without its name."""

    name: Name | None
    value: "Value"


@dataclass(frozen=True)
class Call(Placed):
    """A kind with arguments: ``lamb(lr=1e-3)``."""

    name: Name
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class OfValues(Placed):
    """The base of values that consist of values alone."""

    items: tuple["Value", ...]


class Series(OfValues):
    """Values in square brackets."""


@dataclass(frozen=True)
class Ratio(Placed):
    """Parts of a whole: ``80/10/10``."""

    parts: tuple[Number, ...]


@dataclass(frozen=True)
class Scaled(Placed):
    """A term with a weight: ``50*sop``, or ``sop*50``."""

    factor: "Value"
    term: "Value"


class Sum(OfValues):
    """Terms joined by ``+``."""


@dataclass(frozen=True)
class Range(Placed):
    """All numbers between two, for a search: ``2..12``, ``1e-5..1e-3:log``."""

    low: Number
    high: Number
    scale: str


class Grid(OfValues):
    """Alternatives in braces; the spec stands for one spec each."""


Value = Number | Name | String | Call | Series | Ratio | Scaled | Sum | Range | Grid


@dataclass(frozen=True)
class Setting(Placed):
    """A setting ``name = value``."""

    name: Name
    value: Value


@dataclass(frozen=True)
class Extends(Placed):
    """A base: ``extends NAME`` or ``extends "path"``."""

    target: Name | String


@dataclass(frozen=True)
class Block(Placed):
    """A block ``name { ... }`` or ``name "label" { ... }``."""

    name: Name
    label: String | None
    items: tuple["Item", ...]


Item = Setting | Extends | Block


@dataclass(frozen=True)
class Comment(Placed):
    """A comment, from ``#`` to the end of the line."""

    text: str


@dataclass(frozen=True)
class Tree:
    """The tree of a whole text: its items in order, and its comments."""

    source: Source = field(compare=False, repr=False)
    items: tuple[Item, ...]
    comments: tuple[Comment, ...] = ()

    def settings(self) -> Iterator[Setting]:
        """The settings outside all blocks."""
        return (item for item in self.items if isinstance(item, Setting))
