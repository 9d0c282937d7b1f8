"""Every setting of a spec with its value and its source, as text, HTML and JSON. Loads no torch."""

import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import PurePath
from typing import Any

from bertc.base.diagnostics import Diagnostics, InNotebooks, Span, Table, escaped
from bertc.check.compiling import compile_spec
from bertc.check.passes.tasks import without_unread
from bertc.ir.program.settings import Settings
from bertc.ir.program.written import Given, Origin, Program, StageGiven
from bertc.lang.read.shapes import setting_shape
from bertc.lang.write.format import LINE_WIDTH, format_text
from bertc.lang.write.show import quoted, show_value

COMMENT_COLUMN = 44
SAID = {"written": "here", "set": "--set", "default": "default", "derived": "derived"}
"""Words for the origin of a value; for ``extends`` it is the name of the base."""


@dataclass(frozen=True)
class Shown:
    """A setting with its value as text, its origin's kind, and the comment, paper or rule of that.

    ``base`` is the spec that it comes from by ``extends``, ``place`` where it is written.
    """

    name: str
    value: str
    origin: str
    base: str
    source: str
    place: str

    @property
    def comment(self) -> str:
        """The origin in a few words: ``here: ...``, ``albert-base: ...``, ``default: ...``."""
        return ": ".join(filter(None, (self.base or SAID[self.origin], self.source)))


@dataclass(frozen=True)
class Showing(InNotebooks):
    """The programs of a spec, one for each point of its grids; it shows itself in notebooks."""

    programs: tuple[Program, ...]

    def __str__(self) -> str:
        """Text that reads back, each setting with its source as a comment."""
        return "\n\n".join("\n".join(_lines(program)) for program in self.programs)

    def as_json(self) -> str:
        """Programs with their settings and stages as JSON."""

        def named(part: Program | StageGiven) -> dict[str, Any]:
            return {"name": part.name, "settings": list(map(asdict, _shown(part.settings)))}

        programs = [{**named(p), "stages": list(map(named, p.stages))} for p in self.programs]
        return json.dumps({"schema": 1, "programs": programs}, indent=2)

    def tables(self) -> list[Table]:
        """A table for each program, its stages below."""
        return [_table(program) for program in self.programs]


def _table(program: Program) -> Table:
    rows = list[tuple[str, ...]]()
    parts: tuple[Program | StageGiven, ...] = (program, *program.stages)
    for part in parts:
        rows += [] if part is program else [(f"stage {part.name}",)]
        rows += [(shown.name, shown.value, shown.comment) for shown in _shown(part.settings)]
    return Table(("setting", "value", "source"), rows, program.name)


def show(spec: str, overrides: Sequence[str] = ()) -> Showing:
    """Every setting of a spec with its value and its source; a notebook shows it as a table.

    Raises:
        SpecError: with every mistake found.
    """
    diagnostics = Diagnostics()
    complete = compile_spec(spec, overrides, diagnostics)
    diagnostics.raise_if_any()
    return Showing(tuple(map(without_unread, complete)))


def _lines(program: Program) -> Iterator[str]:
    yield f"# {escaped(program.name)}, with every setting: value and source."
    yield "# To change one, begin with `extends`: what is derived stays as it is in a copy of this."
    for setting in _shown(program.settings):
        yield from _written(setting, "")
    for stage in program.stages:
        yield from ("", f"stage {quoted(stage.name)} {{")
        for setting in _shown(stage.settings):
            yield from _written(setting, "    ")
        yield "}"


def _written(shown: Shown, indent: str) -> list[str]:
    """The setting with its comment behind it, or above it where the line would be too long."""
    line, comment = f"{indent}{shown.name} = {shown.value}", f"# {shown.comment}"
    beside = f"{line:{COMMENT_COLUMN}}  {comment}"
    if len(beside) <= LINE_WIDTH:
        return [beside]
    above = textwrap.wrap(
        comment, LINE_WIDTH, initial_indent=indent, subsequent_indent=f"{indent}# "
    )
    text = line.strip() if len(line) <= LINE_WIDTH else format_text(line).strip()
    return [*above, *(indent + row for row in text.split("\n"))]


def _shown(settings: Mapping[str, Given]) -> list[Shown]:
    return [
        Shown(
            name, show_value(setting.value, setting_shape(name), full=True), *_said(setting.origin)
        )
        for name in Settings.model_fields
        if (setting := settings.get(name)) is not None
    ]


def _said(origin: Origin) -> tuple[str, str, str, str]:
    span = origin.span
    if span is None or origin.kind in ("default", "derived"):
        return origin.kind, "", escaped(origin.source), str(span or "")
    file = PurePath(span.source.name).name.removeprefix("shipped ")
    base = escaped(file) if origin.kind == "extends" else ""
    return origin.kind, base, escaped(_comment_of(span)), str(span)


def _comment_of(span: Span) -> str:
    """The comment behind a setting, else the lines of comment right above it; "" for none."""
    text = span.source.text
    behind = text[span.end :].partition("\n")[0].partition("# ")[2].strip()
    if behind:
        return behind
    lines = text[: span.start].split("\n")[-2::-1]
    above = list(takewhile(lambda line: line.lstrip().startswith("#"), lines))
    return " ".join(line.strip("# ") for line in reversed(above))
