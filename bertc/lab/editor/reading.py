"""A text as an editor has it, with all that ``check`` says of it; kept until files may change."""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from bertc import BertcError, Diagnostic, Diagnostics, Source, SpecError
from bertc.api import check
from bertc.lang import SpecLocation, parse
from bertc.lang.read.tree import Extends, Tree


@dataclass(frozen=True)
class Reading:
    """A text and what is found in it; ``failure`` is of a file that cannot be used."""

    source: Source
    findings: tuple[Diagnostic, ...]
    failure: BertcError | None = None

    @cached_property
    def tree(self) -> Tree:
        """The tree of the correct parts."""
        return parse(self.source.text, self.source.name, Diagnostics())

    @property
    def extends(self) -> Extends | None:
        """Its ``extends``, if it has one."""
        return next((item for item in self.tree.items if isinstance(item, Extends)), None)


@lru_cache(64)
def read_checked(path: Path, text: str) -> Reading:
    """Check a text as ``bertc check`` does its file; an empty one is fine so far."""
    place = SpecLocation(str(path), path.stem, path, path.parent, path.parent, text)
    source, diagnostics = Source(place.name, text), Diagnostics()
    if not re.sub("#.*", "", text).strip():
        return Reading(source, ())
    try:
        check(place, (), diagnostics)
    except SpecError as error:
        return Reading(source, error.diagnostics)
    except BertcError as error:
        return Reading(source, (), error)
    return Reading(source, tuple(diagnostics.remarks))


def forget() -> None:
    """Forget what was found: a file that it depends on may have changed."""
    read_checked.cache_clear()
