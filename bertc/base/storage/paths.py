"""Paths from users: questions about them never raise; the text files that ship with bertc."""

import glob
import os
import re
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path, PurePosixPath

from bertc.base.diagnostics import MissingInputError, listed, nearest

StrPath = str | os.PathLike[str]
_NAMES_READ = 5000
"""Names of a folder among which a mistyped one is looked for."""
_ABSOLUTE = re.compile(
    r"""(?<=['"])(?:file://|~\w*)?/[^'"\n]*(?=['"])|(?<![^\s=(,])~?/[^\s'",()]+"""
)
_PACKAGE = Path(__file__).parents[2]


def without_folders(text: str) -> str:
    """A text with the last part of every absolute path in its place, as others are to see it."""
    return _ABSOLUTE.sub(lambda match: PurePosixPath(match[0]).name, text)


def user_path(name: StrPath) -> Path:
    """A path with ``~`` expanded; left as it is for an unknown user, as in a shell."""
    return Path(os.path.expanduser(name))


def is_file(path: StrPath) -> bool:
    """True for a regular file or a link to one; False for names that no file can have."""
    return os.path.isfile(path)


def is_folder(path: StrPath) -> bool:
    """True for a folder or a link to one; False for names that no folder can have."""
    return os.path.isdir(path)


def is_taken(path: StrPath) -> bool:
    """True if anything has this name, a broken link included."""
    return os.path.lexists(path)


def real_path(path: StrPath) -> Path:
    """The absolute path with links resolved; link loops and impossible names are kept."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):
        return Path(path)


def working_folder() -> Path:
    """The current working folder."""
    try:
        return Path.cwd()
    except OSError:
        raise MissingInputError("the working folder was removed", "cd to another one") from None


def existing_folder(path: StrPath) -> Path:
    """The nearest existing folder at or above ``path``."""
    absolute = working_folder() / path
    return next(parent for parent in (absolute, *absolute.parents) if is_folder(parent))


def check_path(path: StrPath, ending: str = "") -> str:
    """The help for a path with nothing there: a name like it, or what its last folder has.

    ``ending``: that of the names which are meant.
    """
    missing = user_path(path)
    if re.match(r"[a-z][a-z0-9]+:/", str(missing)):
        return "copy it here: only text is read at an address, by files(...) and others of data"
    if "\0" in str(missing) or str(missing).startswith("~"):  # a user nobody knows
        return "check the path"
    while not is_folder(missing.parent) and missing.parent != missing:
        missing = missing.parent
    if is_taken(missing):  # a file where a folder is named, or a link to nothing
        return "check the path"
    meant = ending if missing == user_path(path) else ""
    names = [name for name in names_in(missing.parent) if name.endswith(meant)]
    if near := nearest(missing.name, names):
        corrected = missing.parent / near
        full = corrected / user_path(path).relative_to(missing)
        return f"did you mean {full if is_taken(full) else corrected}?"
    if missing.parent in (Path(), Path("/")) or not names:
        return "check the path"
    return f"check the path: {missing.parent} has {listed(names)}"


def names_in(folder: Path, most: int | None = _NAMES_READ) -> list[str]:
    """Some names in a folder, sorted; none of what is no folder that may be read."""
    try:
        with os.scandir(folder) as entries:
            names = (entry.name for entry in entries if not entry.name.startswith("."))
            return sorted(islice(names, most))
    except (OSError, ValueError):
        return []


def files_matching(name: StrPath) -> Iterator[Path]:
    """The files that match a name or a glob pattern, in no order."""
    pattern = os.path.expanduser(name)
    if "\0" in pattern:
        return iter(())
    return (Path(path) for path in glob.iglob(pattern, recursive=True) if is_file(path))


def cache_folder() -> Path:
    """The cache for prepared text and kernels: $BERTC_CACHE, else ``bertc`` in the user's cache."""
    if chosen := os.environ.get("BERTC_CACHE"):
        return user_path(chosen)
    return user_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "bertc"


def folder(name: str) -> Path:
    """The folder ``grammar`` or ``specs``, in an installed package or beside it in a checkout."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


@cache
def shipped_specs() -> dict[str, Path]:
    """Shipped specs: files by name."""
    return {path.stem: path for path in sorted(folder("specs").glob("*.bertc"))}
