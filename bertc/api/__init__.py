"""Python functions of the compiler, on a spec's text or on values.

Those that need torch import it when they run: checking and estimating never load it.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, TypeAlias

from bertc.base.diagnostics import Diagnostics, Source, Span, SpecError, UsageError, escaped
from bertc.check.compiling import check_spec, compile_spec, points as points
from bertc.check.passes.tasks import drop_settings_of_text
from bertc.ir.program import Given, Origin, Program, Resolved
from bertc.lang import (
    SpecLocation,
    Written,
    load as load_programs,
    setting_shape,
    show as show_program,
    show_value,
)
from bertc.lang.write.format import LINE_WIDTH, format_text

if TYPE_CHECKING:
    from bertc.cost import Convention, Device, Estimate
    from bertc.model import Model
    from bertc.run.records.metrics import Tracking
    from bertc.run.train.report import Report
    from bertc.use.trained import Trained

AnySpec: TypeAlias = "str | Written | Program | Resolved"


def programs(spec: str, overrides: Sequence[str] = (), option: str = "--set") -> list[Program]:
    """The programs of a spec as written, without defaults, one per point of its grid.

    Messages name ``option`` as what an override was given by.

    Raises:
        SpecError: with every mistake of the language in the text.
        MissingInputError, UsageError: if there is no such spec, or it is empty.
    """
    texts = [text if option == "--set" else Source(option, text) for text in overrides]
    return load_programs(spec, texts)


def formatted(spec: str | Program, name: str = "<spec>") -> str:
    """The canonical text of a spec's text, or of a program; messages call the text ``name``.

    Raises:
        SpecError: if the text has mistakes of syntax.
    """
    return show_program(spec) if isinstance(spec, Program) else format_text(spec, name)


def check(
    spec: str | SpecLocation, overrides: Sequence[str] = (), diagnostics: Diagnostics | None = None
) -> int:
    """Check a spec and the files that it names; the number of programs that were checked."""
    return len(check_spec(spec, overrides, diagnostics or Diagnostics()))


def findings(
    spec: str, overrides: Sequence[str] = (), path: str | Path | None = None
) -> Diagnostics:
    """The mistakes (``found``) and ``remarks`` that ``bertc check`` prints of a spec.

    They do not raise. With ``path`` the spec is the text of that file, as an editor has it.

    Raises:
        UsageError: if the text is empty.
        MissingInputError, DataError: if a file that the spec names cannot be used.
    """
    diagnostics, file = Diagnostics(), Path(path or "")
    place = SpecLocation(str(file), file.stem, file, file.parent, file.parent, spec)
    with suppress(SpecError):  # they are in diagnostics
        check_spec(place if path else spec, overrides, diagnostics)
    return diagnostics


def resolve(spec: AnySpec, overrides: Sequence[str] = (), *, sparing: bool = False) -> Resolved:
    """Resolve a file, a shipped spec's name, the text of a spec, or a program.

    ``sparing``: large text is not read to count its epochs and words; steps are not final then.

    Raises:
        SpecError: with every mistake found.
        UsageError: if the spec is a grid of several points.
    """
    if isinstance(spec, Resolved):
        return spec
    programs = points(spec, overrides, sparing=sparing)
    if len(programs) > 1:
        raise UsageError(
            f"this spec is a grid of {len(programs)} points, but one program is needed",
            help=f"give each list one value with --set, such as those of: {programs[0].name}",
        )
    return programs[0]


def estimate(
    spec: AnySpec,
    device: str | Device = "h200",
    convention: Convention = "exact",
    *,
    devices: int = 1,
    memory_bytes: float = math.inf,
) -> Estimate:
    """Parameters, FLOPs, memory (bytes) and time (seconds) of a spec on named devices.

    ``memory_bytes`` is the most that a run may use of each device.

    Raises:
        SpecError, UsageError: of the spec, or if the device is unknown.
        MissingInputError, DataError: if a file that decides the length of rows cannot be read.
    """
    from bertc.check.facts.texts import add_texts, row_lengths
    from bertc.cost import estimate as run

    resolved = resolve(spec)
    (lengths,) = row_lengths([resolved])
    estimated = run(resolved, device, convention, devices, lengths, memory_bytes)
    return add_texts([estimated], [resolved])[0]


def build(spec: AnySpec) -> Model:
    """Build the module of a spec with its initial weights, on the CPU, in training mode.

    With ``init`` these are the weights that training starts from, at the first stage's depth.

    Raises:
        MissingInputError, DataError, UnsafeError: if ``init`` names no model that fits.
    """
    from bertc.model import build as run
    from bertc.run.beginning.init_from import source_of
    from bertc.run.train.state import begin

    resolved = resolve(spec)
    source = source_of(resolved)
    return begin(resolved, resolved.stages[0], source).model if source else run(resolved)


def train(
    spec: AnySpec,
    out: str | Path,
    overrides: Sequence[str] = (),
    *,
    resume: bool = False,
    spec_text: str = "",
    goes_on: Callable[[], bool] = lambda: True,
    tracking: Tracking | None = None,
) -> Report:
    """Train a spec in the run folder ``out``, or with ``resume`` continue the run there.

    ``spec_text`` is written there for a program whose text is not known. ``goes_on`` is called
    after each evaluation, and false ends the run with GivenUpError, saved.
    ``tracking`` feeds the trackers that ``log`` names: ``bertc.lab.trackers.sink.feeding``.
    """
    from bertc.lang.files import spec_text as text_of
    from bertc.run.train.loop import train as run

    resolved = resolve(spec, overrides)
    text = text_of(spec, overrides) if isinstance(spec, str) else spec_text
    return run(
        resolved, Path(out), spec_text=text, resume=resume, goes_on=goes_on, tracking=tracking
    )


def load(folder: str | Path) -> Trained:
    """Load the module of a run or of an imported or exported folder, in evaluation mode.

    Besides ``encode`` it has ``tokenizer``, ``fill`` and ``predict``, which take texts.

    Raises:
        MissingInputError, DataError, UnsafeError: if there is no model, or it cannot be read.
    """
    from bertc.use.trained import load as run

    return run(Path(folder))


COMMENT_COLUMN = 44
SAID = {"written": "here", "set": "--set", "default": "default", "derived": "derived"}
"""Words for the origin of a value; for ``extends`` it is the name of the base."""
_ABOUT = """# {}, with every setting: value and source.
# To change one, begin with `extends`: what is derived stays as it is in a copy of this.
{}"""


@dataclass(frozen=True)
class Showing:
    """The programs of a spec, one for each point of its grids; it shows itself."""

    programs: tuple[Program, ...]

    def __str__(self) -> str:
        """Text that reads back, each setting with its source as a comment."""
        texts = (_ABOUT.format(escaped(p.name), show_program(p, _write)) for p in self.programs)
        return "\n".join(texts).rstrip("\n")

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


def _write(name: str, setting: Given, indent: str) -> list[str]:
    """The setting with its comment behind it, or above it where the line would be too long."""
    value = show_value(setting.value, setting_shape(name), full=True)
    line, comment = f"{indent}{name} = {value}", f"# {_describe(setting.origin)}"
    both = f"{line:{COMMENT_COLUMN}}  {comment}"
    if len(both) <= LINE_WIDTH:
        return [both]
    above = textwrap.wrap(
        comment, LINE_WIDTH, initial_indent=indent, subsequent_indent=f"{indent}# "
    )
    text = line.strip() if len(line) <= LINE_WIDTH else format_text(line).strip()
    return [*above, *(indent + row for row in text.split("\n"))]


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
