"""A mistake in a spec as data: code, message, remedy, and its places; the pages of codes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from textwrap import indent
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from bertc.base.diagnostics.errors import BertcError, UsageError, nearest

GROUPS = {
    "E0": "The text cannot be read", "E1": "A name or a value is wrong", "E2": "Settings disagree",
    "E3": "Bases, and files that decide settings",
    "E4": "Word vectors, and vocabularies made from others", "R1": "Remarks, on what is no mistake",
}  # fmt: skip
"""The subject of codes, by how they begin."""


@dataclass(frozen=True)
class Source:
    """A named text: a spec file, an inline spec, or one ``--set`` argument."""

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True)
class Span:
    """Characters ``start`` to ``end`` (excluded) of a source."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        """The characters that the span covers."""
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        """Line of the first character, from 1."""
        return self.source.text.count("\n", 0, self.start) + 1

    @property
    def column(self) -> int:
        """Column of the first character, from 1."""
        return self.start - (self.source.text.rfind("\n", 0, self.start) + 1) + 1

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"


class Note(NamedTuple):
    """A fact behind a diagnostic, shown at its own place if it has one."""

    message: str
    span: Span | None = None


class Fix(NamedTuple):
    """An edit that removes the error: ``replacement`` in place of ``span``."""

    span: Span
    replacement: str

    @property
    def in_words(self) -> str:
        """The edit in words, the default help of its diagnostic."""
        text = self.replacement.strip()
        if not text:
            return "remove it"
        return text if self.span.text else f"insert {text}"


class Diagnostic(NamedTuple):
    """A mistake (code E...) or a remark (R...) about a spec.

    ``message`` can stand alone: lower case, no full stop, with the value and the limit. A remark is
    about something allowed that is probably not intended.
    """

    code: str
    message: str
    span: Span | None = None
    label: str = ""
    notes: tuple[Note, ...] = ()
    help: str = ""
    fix: Fix | None = None


def _one_line(diagnostic: Diagnostic) -> str:
    """A diagnostic on one line, with place and help: all that a notebook shows of an exception."""
    place = f"{diagnostic.span}: " if diagnostic.span else ""
    help = f" (help: {diagnostic.help})" if diagnostic.help else ""
    return f"{place}{diagnostic.code}: {diagnostic.message}{help}"


class SpecError(BertcError):
    """A spec that cannot be used; carries all its diagnostics."""

    exit_code: ClassVar[int] = 65

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__("; ".join(map(_one_line, diagnostics)))
        self.diagnostics = diagnostics


@dataclass
class Diagnostics:
    """The mistakes and remarks about a spec so far, in the order in which they were found."""

    found: list[Diagnostic] = field(default_factory=list)
    remarks: list[Diagnostic] = field(default_factory=list)
    _recorded: set[Diagnostic] = field(default_factory=set, repr=False, compare=False)

    def error(
        self,
        code: str,
        message: str,
        span: Span | None = None,
        *,
        label: str = "",
        notes: tuple[Note, ...] = (),
        help: str = "",
        fix: Fix | None = None,
    ) -> None:
        """Record a mistake, once, and go on; ``help`` defaults to the words of ``fix``."""
        help = help or (fix.in_words if fix else "")
        self.record(Diagnostic(code, message, span, label, notes, help, fix))

    def add(self, findings: "Diagnostics") -> None:
        """Record what was found elsewhere, each mistake and each remark once."""
        for mistake in findings.found:
            self.record(mistake)
        for remark in findings.remarks:
            self.remark(remark)

    def record(self, mistake: Diagnostic) -> None:
        """Record a mistake, once."""
        if mistake not in self._recorded:
            self._recorded.add(mistake)
            self.found.append(mistake)

    def remark(self, remark: Diagnostic) -> None:
        """Record a remark, once; where another stage has it too is a note of the first."""
        for number, earlier in enumerate(self.remarks):
            if (earlier.code, earlier.message) == (remark.code, remark.message):
                note = Note("here too", remark.span)
                if remark.span not in (None, earlier.span) and note not in earlier.notes:
                    self.remarks[number] = earlier._replace(notes=(*earlier.notes, note))
                return
        self.remarks.append(remark)

    def raise_if_any(self) -> None:
        """Raise if there is any mistake."""
        if self.found:
            raise SpecError(tuple(self.found))


class Page(NamedTuple):
    """The explanation of a code: its meaning, a wrong spec and a right one.

    ``beside`` has the other files that the examples need, by name.
    """

    title: str
    text: str
    bad: str
    good: str
    beside: Mapping[str, str] = MappingProxyType({})


@cache
def codes() -> dict[str, Page]:
    """All codes with their pages, read from ``codes.toml``."""
    import tomllib

    path = Path(__file__).with_name("codes.toml")
    pages = tomllib.loads(path.read_text(encoding="utf-8"))
    return {code: Page(**fields) for code, fields in pages.items()}


def explain(code: str = "") -> str:
    """The page of a code, or the titles of all codes that begin so, as plain text."""
    prefix = code.strip().upper()
    page = codes().get(prefix)
    if page is None:
        begun = {name: page.title for name, page in codes().items() if name.startswith(prefix)}
        if begun:
            return "\n".join(_titles(dict(sorted(begun.items()))))
        near = nearest(prefix, codes())
        help = f"bertc explain {near}" if near else "bertc explain lists all codes"
        raise UsageError(f"there is no code `{code[:20]}`", help)
    parts = [f"{prefix}: {page.title}", page.text.strip()]
    for name, example in (("Wrong", page.bad), ("Right", page.good)):
        parts.append(f"{name}:\n\n{indent(example.strip(), '    ')}")
    return "\n\n".join(parts)


def _titles(titles: Mapping[str, str]) -> Iterator[str]:
    """Lines of codes with their titles, under a heading for each group."""
    for group, meaning in GROUPS.items():
        lines = [f"  {name}  {title}" for name, title in titles.items() if name.startswith(group)]
        yield from [f"{group}xx: {meaning}", *lines] if lines else []
