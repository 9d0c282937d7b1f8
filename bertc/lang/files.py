"""Locations of specs: a file, a shipped name, standard input, or the text itself."""

import os
import re
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TextIO

from bertc.base.diagnostics import MissingInputError, Span, listed, nearest
from bertc.base.storage import durable
from bertc.base.storage.paths import check_path, folder, is_file, shipped_specs, working_folder
from bertc.base.storage.plain_file import read_text
from bertc.lang.read.scan import LARGEST_TEXT
from bertc.lang.write.format import format_text

SUFFIX = ".bertc"
OVERRIDE = "# --set "
"""Prefix of a line in the spec of a run that notes an override."""
STANDARD_INPUT = "-"
_SPEC_TEXT = re.compile(r"[={}\"'#,\s]")


class SpecLocation(NamedTuple):
    """The location of a spec: name in messages, title, file, and the folders for its bases.

    ``text`` is the spec itself if it is no file, or not yet what is in the file. ``span`` is where
    another spec extends it.
    """

    name: str
    title: str
    path: Path | None
    here: Path
    root: Path
    text: str = ""
    span: Span | None = None

    def read(self) -> str:
        """The text of the spec."""
        if self.path is None or self.text:
            return self.text
        if is_file(spec_of_run := self.path / "spec.bertc"):
            raise MissingInputError(f"{self.path} is a run", f"its spec is {spec_of_run}")
        text = read_text(self.path, 4 * LARGEST_TEXT)
        return text.removeprefix("\ufeff").replace("\r\n", "\n")


def find_spec(spec: str) -> SpecLocation:
    """Resolve a SPEC argument: standard input, a shipped name, a file, or the text itself."""
    shipped, working = shipped_specs(), working_folder()
    if spec == STANDARD_INPUT:
        return SpecLocation("<stdin>", "spec", None, working, working, _standard_input(sys.stdin))
    if spec in shipped:
        return shipped_place(spec)
    short = len(spec) < 4096 and "\n" not in spec and "\0" not in spec
    if short and spec and os.path.lexists(spec):
        path = Path(spec)
        return SpecLocation(spec, path.stem, path, path.parent, path.parent)
    short_spec, path_like = spec[:60], short and spec.endswith(SUFFIX) and "=" not in spec
    if not path_like and (not spec or _SPEC_TEXT.search(spec)):
        return SpecLocation("<spec>", "spec", None, working, working, spec)
    like_file = check_path(spec, SUFFIX) if path_like or "/" in spec or "." in spec else ""
    near = "" if "/" in spec else nearest(spec.removesuffix(SUFFIX), shipped)
    help = f"shipped specs: {listed(shipped, limit=400)}"
    if near and not like_file.endswith("?"):
        help = f"did you mean {near}?"
    elif like_file:
        help = like_file if like_file.endswith("?") else f"{like_file}; or a name of `bertc specs`"
    raise MissingInputError(f"there is no file or shipped spec called `{short_spec}`", help)


def shipped_place(name: str, span: Span | None = None) -> SpecLocation:
    """The location of a shipped spec."""
    specs = folder("specs")
    # The name in messages is no path: the reader's folder has no such file.
    return SpecLocation(f"shipped {name}", name, shipped_specs()[name], specs, specs, span=span)


@cache  # a stream can be read once
def _standard_input(stream: TextIO) -> str:
    try:
        return stream.buffer.read(4 * LARGEST_TEXT + 1).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise MissingInputError("cannot read the standard input: it is not UTF-8 text") from None


def spec_text(spec: str, overrides: Sequence[str] = ()) -> str:
    """The text of a SPEC argument, followed by the overrides as comments."""
    text = find_spec(spec).read()
    return text + "".join(f"\n{OVERRIDE}{' '.join(override.split())}\n" for override in overrides)


def overrides_in(text: str) -> list[str]:
    """The overrides that ``spec_text`` added to a text."""
    lines = text.splitlines()
    return [line.removeprefix(OVERRIDE) for line in lines if line.startswith(OVERRIDE)]


def format_file(file: Path, write: bool) -> bool:
    """Compare a file, or ``-``, with its canonical text, which ``write`` puts in its place."""
    standard = str(file) == STANDARD_INPUT
    place = SpecLocation(str(file), file.stem, None if standard else file, file.parent, file.parent)
    text = _standard_input(sys.stdin) if standard else place.read()
    canonical = format_text(text, "<stdin>" if standard else str(file))
    if write and standard:
        sys.stdout.write(canonical)
    elif write and canonical != text:
        durable.replace(file, canonical.encode(), elsewhere="copy it to another folder")
    return canonical != text
