"""A spec as written: typed values by setting, each with its origin."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import is_
from types import MappingProxyType
from typing import Any, Literal

from bertc.base.diagnostics import Span

DEFAULT_STAGE = "main"
"""The name of the stage of a spec without stages."""
OriginKind = Literal["written", "extends", "set", "default", "derived"]


@dataclass(frozen=True)
class Origin:
    """The origin of a value: a span of text, or the source of a default.

    ``parts`` maps the path of a part of the value (pydantic's ``loc``) to its span, for messages
    about one argument. Origins do not take part in comparisons.
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

    def with_settings(self, new: Mapping[str, Given]) -> "StageGiven":
        """The same stage with some settings replaced or added."""
        return self.having({**self.settings, **new})

    def having(self, settings: Mapping[str, Given]) -> "StageGiven":
        """The same stage with these settings; itself if they are its own."""
        return self if settings is self.settings else StageGiven(self.name, settings, self.span)


@dataclass(frozen=True)
class Program:
    """A spec, setting by setting; passes turn it into a ``Resolved``."""

    name: str
    settings: Mapping[str, Given]
    stages: tuple[StageGiven, ...] = ()
    base: "Program | None" = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", MappingProxyType(dict(self.settings)))

    def with_settings(self, new: Mapping[str, Given]) -> "Program":
        """The same program with some settings replaced or added."""
        return self.having({**self.settings, **new}, self.stages)

    def with_values(self, **values: Any) -> "Program":
        """The same program with settings set to typed values, as by ``--set``."""
        return self.with_settings({n: Given(v, Origin("set")) for n, v in values.items()})

    def map_blocks(self, change: Callable[[Mapping[str, Given]], Mapping[str, Given]]) -> "Program":
        """The same program with other settings of the run and of each stage."""
        settings = change(self.settings)
        return self.having(settings, tuple(s.having(change(s.settings)) for s in self.stages))

    def having(self, settings: Mapping[str, Given], stages: tuple[StageGiven, ...]) -> "Program":
        """The same program with these settings and stages; itself if they are its own."""
        alike = settings is self.settings and [*map(id, stages)] == [*map(id, self.stages)]
        return self if alike else Program(self.name, settings, stages, self.base)

    @property
    def blocks(self) -> tuple[Mapping[str, Given], ...]:
        """The settings of the run and of each stage."""
        return (self.settings, *(stage.settings for stage in self.stages))


def map_terms(settings: Mapping[str, Given], change: Callable[[Any], Any]) -> Mapping[str, Given]:
    """Settings with each term of their objective changed; themselves if none is."""
    objective = settings.get("objective")
    terms = tuple(map(change, objective.value)) if objective else ()
    if objective is None or all(map(is_, terms, objective.value)):
        return settings
    return {**settings, "objective": Given(terms, objective.origin)}
