"""A spec as written: typed values by setting, each with its origin."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
        return replace(self, settings={**self.settings, **new})


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
        return replace(self, settings={**self.settings, **new})

    def with_values(self, **values: Any) -> "Program":
        """The same program with settings set to typed values, as by ``--set``."""
        return self.with_settings({n: Given(v, Origin("set")) for n, v in values.items()})

    def map_blocks(self, change: Callable[[Mapping[str, Given]], Mapping[str, Given]]) -> "Program":
        """The same program with other settings of the run and of each stage."""
        stages = (replace(stage, settings=change(stage.settings)) for stage in self.stages)
        return replace(self, settings=change(self.settings), stages=tuple(stages))

    @property
    def blocks(self) -> tuple[Mapping[str, Given], ...]:
        """The settings of the run and of each stage."""
        return (self.settings, *(stage.settings for stage in self.stages))


def map_terms(settings: Mapping[str, Given], change: Callable[[Any], Any]) -> dict[str, Given]:
    """Settings with each term of their objective changed."""
    if (objective := settings.get("objective")) is None:
        return dict(settings)
    return {**settings, "objective": replace(objective, value=tuple(map(change, objective.value)))}
