"""Locations of specs: a file, a shipped name, standard input, or the text itself."""

import os
import re
import stat
import sys
from collections.abc import Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TextIO

from bertc.base.diagnostics import CannotWriteError, MissingInputError, Span, listed, nearest
from bertc.base.resources import folder, shipped_specs
from bertc.base.storage.paths import is_file, working_folder
from bertc.base.storage.plain_file import kind_of, reason
from bertc.lang.read.scan import LARGEST_TEXT
from bertc.lang.write.format import format_text

SUFFIX = ".bertc"
OVERRIDE = "# --set "
"""Prefix of a line in the spec of a run that notes an override."""
STANDARD_INPUT = "-"
MAX_SIBLINGS = 1000
"""Files of a folder that are searched for a similar name."""
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
        """The text of the spec.

        Raises:
            MissingInputError: if its file cannot be read.
        """
        if self.path is None or self.text:
            return self.text
        try:
            return read_file(self.path)
        except UnreadableError as reason:
            raise MissingInputError(f"cannot read {self.path}: {reason}") from None


class UnreadableError(Exception):
    """A file that is not text, or too large for a spec."""


def find(spec: str) -> SpecLocation:
    """Resolve a SPEC argument: standard input, a shipped name, a file, or the text itself.

    Raises:
        MissingInputError: if it looks like a name or a path and does not exist, or if standard
            input is not text.
    """
    shipped, here = shipped_specs(), working_folder()
    if spec == STANDARD_INPUT:
        return SpecLocation("<stdin>", "spec", None, here, here, _standard_input(sys.stdin))
    if spec in shipped:
        return shipped_place(spec)
    short = len(spec) < 4096 and "\n" not in spec and "\0" not in spec
    if short and spec and os.path.lexists(spec):
        path = Path(spec)
        return SpecLocation(spec, path.stem, path, path.parent, path.parent)
    short_spec, path_like = spec[:60], short and spec.endswith(SUFFIX) and "=" not in spec
    if not path_like and (not spec or _SPEC_TEXT.search(spec)):
        return SpecLocation("<spec>", "spec", None, here, here, spec)
    path_like = path_like or "/" in spec or os.sep in spec
    near = "" if path_like else nearest(spec, shipped)
    if not near and (sibling := _similar_sibling(spec)):
        raise MissingInputError(f"there is no spec {short_spec}", f"did you mean {sibling}?")
    if path_like:
        raise MissingInputError(f"there is no spec {short_spec}", "check the path")
    help = f"did you mean {near}?" if near else f"shipped specs: {listed(shipped, limit=400)}"
    message = f"there is no file or shipped spec called `{short_spec}`"
    raise MissingInputError(message, help if shipped else "")


def _similar_sibling(spec: str) -> str:
    """The spec in the folder of a missing one whose name is most like it; empty if none is."""
    path = Path(spec)
    try:
        names = [each.name for each in islice(path.parent.glob(f"*{SUFFIX}"), MAX_SIBLINGS)]
    except OSError:
        return ""
    near = nearest(path.name, names)
    return str(path.with_name(near)) if near else ""


def shipped_place(name: str, span: Span | None = None) -> SpecLocation:
    """The location of a shipped spec."""
    specs = folder("specs")
    # The name in messages is no path: the reader's folder has no such file.
    return SpecLocation(f"shipped {name}", name, shipped_specs()[name], specs, specs, span=span)


def read_file(path: Path) -> str:
    """The text of a regular file, with its size checked first.

    Raises:
        UnreadableError: with the reason.
    """
    try:
        if is_file(spec_of_run := path / "spec.bertc"):
            raise UnreadableError(f"it is a run, and its spec is {spec_of_run}")
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError(kind_of(status.st_mode))
        if status.st_size > 4 * LARGEST_TEXT:
            raise UnreadableError(f"{status.st_size:,} bytes are too many for a spec")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableError("it is not UTF-8 text") from None
    except OSError as error:
        raise UnreadableError(reason(error)) from None


@cache  # a stream can be read once
def _standard_input(stream: TextIO) -> str:
    try:
        return stream.buffer.read(4 * LARGEST_TEXT + 1).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise MissingInputError("cannot read the standard input: it is not UTF-8 text") from None


def spec_text(spec: str, overrides: Sequence[str] = ()) -> str:
    """The text of a SPEC argument, followed by the overrides as comments.

    Raises:
        MissingInputError: if there is no such spec.
    """
    text = find(spec).read()
    return text + "".join(f"\n{OVERRIDE}{' '.join(each.split())}\n" for each in overrides)


def overrides_in(text: str) -> list[str]:
    """The overrides that ``spec_text`` added to a text."""
    lines = text.splitlines()
    return [line.removeprefix(OVERRIDE) for line in lines if line.startswith(OVERRIDE)]


def format_file(file: Path, write: bool) -> bool:
    """Compare a file with its canonical text; True if they differ. ``write`` replaces it.

    ``-`` is the standard input, and its canonical text goes to the standard output.

    Raises:
        MissingInputError: if the file cannot be read.
        CannotWriteError: if it cannot be written.
        SpecError: if its text has mistakes.
    """
    standard = str(file) == STANDARD_INPUT
    place = SpecLocation(str(file), file.stem, None if standard else file, file.parent, file.parent)
    text = _standard_input(sys.stdin) if standard else place.read()
    canonical = format_text(text, "<stdin>" if standard else str(file))
    if write and standard:
        sys.stdout.write(canonical)
    elif write and canonical != text:
        aside = file.with_name(f".{file.name}.new")
        try:
            aside.write_text(canonical, encoding="utf-8")
            os.replace(aside, file)
        except OSError as error:
            aside.unlink(missing_ok=True)
            raise CannotWriteError(f"cannot write {file}: {error.strerror}") from None
    return canonical != text
