"""A spec as written: typed values by setting, each with where it came from."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from bertc.diagnostics import Span

OriginKind = Literal["written", "extends", "set", "default", "derived"]


@dataclass(frozen=True)
class Origin:
    """Where a value came from: a place in a text, or the source of a default.

    ``parts`` maps the address of a piece of the value (as pydantic's ``loc``) to its own span, for
    messages that point at one argument. Two origins never make two values differ.
    """

    kind: OriginKind
    span: Span | None = None
    source: str = ""
    parts: Mapping[tuple[str | int, ...], Span] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Given:
    """A typed value (a node, number, string or tuple of nodes) and its origin."""

    value: Any
    origin: Origin = field(compare=False)


@dataclass(frozen=True)
class StageGiven:
    """A ``stage`` block: a name and the settings it changes."""

    name: str
    settings: Mapping[str, Given]
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Program:
    """What a spec says, setting by setting; passes turn it into a ``Resolved``.

    ``base`` is the program named by ``extends``, already read; the first pass merges it in.
    """

    name: str
    settings: Mapping[str, Given]
    stages: tuple[StageGiven, ...] = ()
    base: "Program | None" = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))

    def with_settings(self, new: Mapping[str, Given]) -> "Program":
        """The same program with some settings replaced or added."""
        return replace(self, settings={**self.settings, **new})

    def span(self, setting: str) -> Span | None:
        """Where a setting was written, if it was."""
        given = self.settings.get(setting)
        return given.origin.span if given else None
