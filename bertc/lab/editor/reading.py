"""A text as an editor has it, with all that ``check`` says of it; kept until files may change."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from bertc import BertcError
from bertc.lab_api import Diagnostic, findings

_EXTENDS = re.compile(r'^[ \t]*(?P<extends>extends[ \t]+(?:"[^"\n]*"|[\w-]+))', re.MULTILINE)


@dataclass(frozen=True)
class Reading:
    """A text and what is found in it; ``failure`` is of a file that cannot be used."""

    text: str
    findings: tuple[Diagnostic, ...]
    failure: BertcError | None = None

    @property
    def extends(self) -> tuple[int, int] | None:
        """The beginning and the end of its ``extends``, if it has one."""
        match = _EXTENDS.search(self.text)
        return match.span("extends") if match else None

    def has(self, finding: Diagnostic) -> bool:
        """True if a finding is about this text, not about another that it extends."""
        return finding.span is not None and finding.span.source.text == self.text


@lru_cache(64)
def read_checked(path: Path, text: str) -> Reading:
    """Check a text as ``bertc check`` does its file; an empty one is fine so far."""
    if not re.sub("#.*", "", text).strip():
        return Reading(text, ())
    try:
        diagnostics = findings(text, path=path)
    except BertcError as error:
        return Reading(text, (), error)
    return Reading(text, tuple(diagnostics.found or diagnostics.remarks))
