"""A text as an editor has it, with all that ``check`` says of it; kept until files may change."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bertc import BertcError, Diagnostic, Source, Span, findings

_EXTENDS = re.compile(r'^[ \t]*(?P<extends>extends[ \t]+(?:"[^"\n]*"|[\w-]+))', re.MULTILINE)


@dataclass(frozen=True)
class Reading:
    """A text and what is found in it; ``failure`` is of a file that cannot be used."""

    source: Source
    findings: tuple[Diagnostic, ...]
    failure: BertcError | None = None

    @property
    def extends(self) -> Span | None:
        """The place of its ``extends``, if it has one."""
        match = _EXTENDS.search(self.source.text)
        return Span(self.source, match.start("extends"), match.end()) if match else None


@lru_cache(64)
def read_checked(path: Path, text: str) -> Reading:
    """Check a text as ``bertc check`` does its file; an empty one is fine so far."""
    source = Source(str(path), text)
    if not re.sub("#.*", "", text).strip():
        return Reading(source, ())
    try:
        diagnostics = findings(text, path=path)
    except BertcError as error:
        return Reading(source, (), error)
    return Reading(source, tuple(diagnostics.found or diagnostics.remarks))


def forget() -> None:
    """Forget what was found: a file that it depends on may have changed."""
    read_checked.cache_clear()
