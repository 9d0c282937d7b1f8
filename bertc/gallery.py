"""The shipped specs as a gallery: what each is, its paper, its size, and every setting's source.

Sentence and paper are those of the comment that a spec begins with: they stand nowhere else. A spec
that names no paper follows that of the spec it extends. Loads no torch.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import PurePath
from typing import Any

from bertc.api import compile_spec, points
from bertc.diagnostics import Diagnostics, Span, escaped
from bertc.ir.program.model import model_weights
from bertc.ir.program.settings import Settings
from bertc.ir.program.written import Given, Origin, Program
from bertc.passes.tasks import without_unread
from bertc.resources import shipped_specs
from bertc.syntax.read.shapes import setting_shape
from bertc.syntax.write.show import quoted, show_value

_PAPER = re.compile(r"[A-Z][\w-]+ (?:et al\.|(?:&|and) [A-Z][\w-]+) (?:19|20)\d\d\b")
_SOURCES = re.compile(r" \([^()]*\)")
_SENTENCE_END = re.compile(r"[.;](?: |$)")
_EXTENDS = re.compile(r"^extends ([\w-]+)", re.MULTILINE)
LINE_WIDTH = 100
COMMENT_COLUMN = 44
SAID = {"written": "here", "set": "--set", "default": "default", "derived": "derived"}
"""Words for the origin of a value; for ``extends`` it is the name of the base."""


@dataclass(frozen=True)
class Shipped:
    """A shipped spec; ``parameters`` are the fewest and the most of its grid, heads included."""

    name: str
    sentence: str
    paper: str
    parameters: tuple[int, int]

    @property
    def size(self) -> str:
        """Its parameters in millions: ``11.8M``, of a grid ``11.8M to 89.8M``."""
        return " to ".join(f"{count / 1e6:.1f}M" for count in sorted({*self.parameters}))


@dataclass(frozen=True)
class Shown:
    """A setting with its value as text, the kind of its origin, and what is said of that.

    ``source`` is the comment at a written one, else the paper or rule of a default. ``base`` is the
    spec that it comes from by ``extends``, ``place`` file, line and column where it is written.
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


def gallery() -> list[Shipped]:
    """Every shipped spec, by name; each is resolved to count its parameters."""
    return [_shipped(name) for name in shipped_specs()]


def gallery_table(specs: Sequence[Shipped]) -> str:
    """Name, parameters, paper and sentence, a line a spec."""
    widths = [max(len(getattr(each, name)) for each in specs) for name in ("name", "size", "paper")]
    return "\n".join(
        f"{each.name:{widths[0]}}  {each.size:>{widths[1]}}  {each.paper:{widths[2]}}  "
        f"{each.sentence}"
        for each in specs
    )


def gallery_json(specs: Sequence[Shipped]) -> str:
    """The shipped specs as JSON."""
    return json.dumps({"schema": 1, "specs": [asdict(each) for each in specs]}, indent=2)


def sentence_of(text: str) -> str:
    """The first sentence of a spec's first comment, without what stands in brackets."""
    return _SENTENCE_END.split(_SOURCES.sub("", _first_comment(text)))[0]


def paper_of(text: str) -> str:
    """The first paper that the first comment names, else that of the base; "" for none."""
    if found := _PAPER.search(_first_comment(text)):
        return found[0]
    base = _EXTENDS.search(text)
    return paper_of(_text(base[1])) if base else ""


def _first_comment(text: str) -> str:
    comment = takewhile(lambda line: line.startswith("#"), text.splitlines())
    return " ".join(line.strip("# ") for line in comment)


def _text(name: str) -> str:
    return shipped_specs()[name].read_text(encoding="utf-8")


def _shipped(name: str) -> Shipped:
    counts = [sum(weight.numel for weight in model_weights(each)) for each in points(name)]
    text = _text(name)
    return Shipped(name, sentence_of(text), paper_of(text), (min(counts), max(counts)))


def show_spec(spec: str, overrides: Sequence[str] = ()) -> str:
    """Every setting of a spec as text that reads back, each with its source as a comment.

    Raises:
        SpecError: with every mistake of the spec.
    """
    return "\n\n".join("\n".join(_lines(program)) for program in _programs(spec, overrides))


def show_json(spec: str, overrides: Sequence[str] = ()) -> str:
    """Every setting of a spec as JSON: programs with their settings and stages."""
    programs = [
        {
            "name": program.name,
            "settings": [asdict(each) for each in _shown(program.settings)],
            "stages": [
                {
                    "name": stage.name,
                    "settings": [asdict(each) for each in _shown(stage.settings)],
                }
                for stage in program.stages
            ],
        }
        for program in _programs(spec, overrides)
    ]
    return json.dumps({"schema": 1, "programs": programs}, indent=2)


def _programs(spec: str, overrides: Sequence[str]) -> list[Program]:
    diagnostics = Diagnostics()
    complete = compile_spec(spec, overrides, diagnostics)
    diagnostics.raise_if_any()
    return [without_unread(each) for each in complete]


def _lines(program: Program) -> Iterator[str]:
    yield f"# {escaped(program.name)}, with every setting: value and source."
    yield from (line for each in _shown(program.settings) for line in _written(each, ""))
    for stage in program.stages:
        yield from ("", f"stage {quoted(stage.name)} {{")
        yield from (line for each in _shown(stage.settings) for line in _written(each, "    "))
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
    return [*above, line]


def _shown(settings: Mapping[str, Given]) -> list[Shown]:
    return [
        Shown(name, _value(name, given.value), *_said(given.origin))
        for name in Settings.model_fields
        if (given := settings.get(name)) is not None
    ]


def _value(name: str, value: Any) -> str:
    return show_value(value, setting_shape(name))


def _said(origin: Origin) -> tuple[str, str, str, str]:
    """Kind of the origin, base, source and place."""
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
