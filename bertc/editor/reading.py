"""A text as an editor has it, with all that ``check`` says of it; kept until files may change."""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from bertc.api import check
from bertc.diagnostics import BertcError, Diagnostic, Diagnostics, Source, SpecError
from bertc.syntax import SpecLocation, parse
from bertc.syntax.load import bases
from bertc.syntax.read.tree import Extends, Tree

KEPT_READINGS = 64
"""Texts whose findings are kept."""


@dataclass(frozen=True)
class Reading:
    """A text and what is found in it; ``failure`` is of a file that cannot be used."""

    place: SpecLocation
    source: Source
    findings: tuple[Diagnostic, ...]
    failure: BertcError | None = None

    @cached_property
    def tree(self) -> Tree:
        """The tree of the correct parts."""
        return parse(self.source.text, self.source.name, Diagnostics())

    @cached_property
    def bases(self) -> tuple[tuple[SpecLocation, Tree], ...]:
        """The specs that it builds on, the nearest first."""
        return tuple(bases(self.place, self.tree))

    @property
    def extends(self) -> Extends | None:
        """Its ``extends``, if it has one."""
        return next((item for item in self.tree.items if isinstance(item, Extends)), None)


def location(path: Path, text: str) -> SpecLocation:
    """The location of a text that a file has, or will have once it is saved."""
    return SpecLocation(str(path), path.stem, path, path.parent, path.parent, text)


@lru_cache(KEPT_READINGS)
def read_checked(path: Path, text: str) -> Reading:
    """Check a text as ``bertc check`` does its file; an empty one is fine so far."""
    place = location(path, text)
    source, diagnostics = Source(place.name, text), Diagnostics()
    if not re.sub("#.*", "", text).strip():
        return Reading(place, source, ())
    try:
        check(place, (), diagnostics)
    except SpecError as error:
        return Reading(place, source, error.diagnostics)
    except BertcError as error:
        return Reading(place, source, (), error)
    return Reading(place, source, tuple(diagnostics.remarks))


@lru_cache(KEPT_READINGS)
def as_written(path: Path, text: str) -> Reading:
    """A text with its bases and without findings, for answers that need no check."""
    place = location(path, text)
    return Reading(place, Source(place.name, text), ())


def forget() -> None:
    """Forget what was found: a file that it depends on may have changed."""
    read_checked.cache_clear()
    as_written.cache_clear()
