"""Names of files: no question about one raises, whatever was written."""

import glob
import os
from collections.abc import Iterator
from pathlib import Path

from bertc.diagnostics import MissingInputError

StrPath = str | os.PathLike[str]


def user_path(name: StrPath) -> Path:
    """A path with ``~`` replaced; of a user that is not there it stays, as in a shell."""
    return Path(os.path.expanduser(name))


def is_file(path: StrPath) -> bool:
    """Whether it is a plain file, or a link to one; false of names that no file can have."""
    return os.path.isfile(path)


def is_folder(path: StrPath) -> bool:
    """Whether it is a folder, or a link to one; false of names that no folder can have."""
    return os.path.isdir(path)


def is_taken(path: StrPath) -> bool:
    """Whether anything has this name, a link that leads nowhere included."""
    return os.path.lexists(path)


def real_path(path: StrPath) -> Path:
    """The absolute path without links; a link that leads to itself, or no name at all, stays."""
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):
        return Path(path)


def working_folder() -> Path:
    """The folder that names begin in.

    Raises:
        MissingInputError: it was removed.
    """
    try:
        return Path.cwd()
    except OSError:
        raise MissingInputError("the working folder was removed", "cd to another one") from None


def existing_folder(path: StrPath) -> Path:
    """The nearest folder around ``path`` that is there."""
    whole = working_folder() / path
    return next(parent for parent in (whole, *whole.parents) if is_folder(parent))


def files_matching(name: StrPath) -> Iterator[Path]:
    """The files that a name or a pattern of names finds, in no order."""
    pattern = os.path.expanduser(name)
    if "\0" in pattern:
        return iter(())
    return (Path(found) for found in glob.iglob(pattern, recursive=True) if is_file(found))


def cache_folder() -> Path:
    """Where prepared text is kept: $BERTC_CACHE, else bertc in the user's cache folder."""
    if chosen := os.environ.get("BERTC_CACHE"):
        return user_path(chosen)
    return user_path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "bertc"
