"""Every setting of a spec with its value and its source, as text. Loads no torch."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import PurePath

from bertc.base.diagnostics import Diagnostics, Span, escaped
from bertc.check.compiling import compile_spec
from bertc.check.passes.tasks import drop_settings_of_text
from bertc.ir.program.settings import Settings
from bertc.ir.program.written import Given, Origin, Program
from bertc.lang.read.shapes import setting_shape
from bertc.lang.write.format import LINE_WIDTH, format_text
from bertc.lang.write.show import quote, show_value

COMMENT_COLUMN = 44
SAID = {"written": "here", "set": "--set", "default": "default", "derived": "derived"}
"""Words for the origin of a value; for ``extends`` it is the name of the base."""
Shown = tuple[str, str, str]
"""A setting, its value as text, and its origin in words: ``here``, a base, then comment or rule."""


@dataclass(frozen=True)
class Showing:
    """The programs of a spec, one for each point of its grids; it shows itself."""

    programs: tuple[Program, ...]

    def __str__(self) -> str:
        """Text that reads back, each setting with its source as a comment."""
        return "\n\n".join("\n".join(_lines(program)) for program in self.programs)

    __repr__ = __str__


def show(spec: str, overrides: Sequence[str] = ()) -> Showing:
    """Every setting of a spec with its value and its source, which notebooks show too.

    Raises:
        SpecError: with every mistake found.
    """
    diagnostics = Diagnostics()
    complete = compile_spec(spec, overrides, diagnostics)
    diagnostics.raise_if_any()
    return Showing(tuple(map(drop_settings_of_text, complete)))


def _lines(program: Program) -> Iterator[str]:
    yield f"# {escaped(program.name)}, with every setting: value and source."
    yield "# To change one, begin with `extends`: what is derived stays as it is in a copy of this."
    for setting in _rows(program.settings):
        yield from _write(setting, "")
    for stage in program.stages:
        yield from ("", f"stage {quote(stage.name)} {{")
        for setting in _rows(stage.settings):
            yield from _write(setting, "    ")
        yield "}"


def _write(setting: Shown, indent: str) -> list[str]:
    """The setting with its comment behind it, or above it where the line would be too long."""
    name, value, origin = setting
    line, comment = f"{indent}{name} = {value}", f"# {origin}"
    both = f"{line:{COMMENT_COLUMN}}  {comment}"
    if len(both) <= LINE_WIDTH:
        return [both]
    above = textwrap.wrap(
        comment, LINE_WIDTH, initial_indent=indent, subsequent_indent=f"{indent}# "
    )
    text = line.strip() if len(line) <= LINE_WIDTH else format_text(line).strip()
    return [*above, *(indent + row for row in text.split("\n"))]


def _rows(settings: Mapping[str, Given]) -> list[Shown]:
    return [
        (name, show_value(setting.value, setting_shape(name), full=True), _describe(setting.origin))
        for name in Settings.model_fields
        if (setting := settings.get(name)) is not None
    ]


def _describe(origin: Origin) -> str:
    span, words, source = origin.span, SAID.get(origin.kind, ""), origin.source
    if span is not None and origin.kind not in ("default", "derived"):
        file = PurePath(span.source.name).name.removeprefix("shipped ")
        words = file if origin.kind == "extends" else words
        source = _comment_of(span)
    return escaped(": ".join(filter(None, (words, source))))


def _comment_of(span: Span) -> str:
    """The comment behind a setting, else the lines of comment right above it; "" for none."""
    text = span.source.text
    behind = text[span.end :].partition("\n")[0].partition("# ")[2].strip()
    if behind:
        return behind
    lines = text[: span.start].split("\n")[-2::-1]
    above = list(takewhile(lambda line: line.lstrip().startswith("#"), lines))
    return " ".join(line.strip("# ") for line in reversed(above))
