"""Places in a spec: a source text and a half-open range of character offsets in it."""

from dataclasses import dataclass, field


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
