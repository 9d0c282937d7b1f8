"""Bounded reading of regular files and untrusted JSON, and why one cannot be used."""

import errno
import json
import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from bertc.base.diagnostics import DataError, MissingInputError
from bertc.base.storage import paths
from bertc.base.storage.encodings import not_utf8

LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_REASONS = {
    errno.ENOENT: "it is not there", errno.ENOTDIR: "it is not there",
    errno.EACCES: "permission denied", errno.EPERM: "permission denied",
    errno.ELOOP: "it is a link that leads to itself", errno.ENAMETOOLONG: "its name is too long",
    errno.EISDIR: "it is a folder",
}  # fmt: skip
MAX_INTEGER_DIGITS = 40  # transformers writes int(1e30), of 31 digits, for no limit


@contextmanager
def opened(path: paths.StrPath) -> Iterator[BufferedReader]:
    """Open a regular file for reading; a failure to read it inside the block is reported too."""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise _unreadable(path, _kind(status.st_mode))
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise _unreadable(path, reason(error)) from None
    except ValueError:
        raise _unreadable(path, "no file has such a name") from None
    with file:
        try:
            yield file
        except OSError as error:
            raise _unreadable(path, reason(error)) from None


def read_bytes(path: paths.StrPath, max_bytes: int) -> bytes:
    """The content of a plain file."""
    with opened(path) as file:
        # The size is checked first, so a file that is far too large is not read at all.
        if os.fstat(file.fileno()).st_size <= max_bytes:
            content = file.read(max_bytes + 1)
            if len(content) <= max_bytes:
                return content
    mib, rest = divmod(max_bytes, 2**20)
    most = f"{max_bytes:,} bytes" if rest or not mib else f"{mib:,} MiB"
    raise DataError(f"{path} is larger than {most}")


def read_text(path: paths.StrPath, max_bytes: int) -> str:
    """The text of a UTF-8 file; line ends stay as they are."""
    content = read_bytes(path, max_bytes)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise not_utf8(Path(path), content, error.start) from None


def refuse_pointer(path: paths.StrPath) -> None:
    """Raise a DataError if a file has the pointer that a clone without git-lfs leaves there."""
    with opened(path) as file:
        if file.read(len(LFS_POINTER)) == LFS_POINTER:
            help = f"git lfs pull downloads it: run it in {Path(path).absolute().parent}"
            raise DataError(f"{path} is a pointer of git-lfs, without the content", help)


def size_bytes(path: paths.StrPath) -> int:
    """The size of a plain file."""
    with opened(path) as file:
        return os.fstat(file.fileno()).st_size


def reason(error: OSError) -> str:
    """The reason behind an OSError, in the words of bertc's messages."""
    words = _REASONS.get(error.errno or 0)
    return words or (error.strerror or "it cannot be read").lower()


def _unreadable(path: paths.StrPath, why: str) -> MissingInputError:
    message, help = f"cannot read {Path(path)}: {why}", "check the path"
    if why == _REASONS[errno.ENOENT]:
        message, help = f"{Path(path)} is not there", paths.check_path(path)
    if not os.path.isabs(path) and not help.endswith("?"):
        help += f"; names of files begin in {paths.working_folder()}"
    return MissingInputError(message, help)


def no_folder(name: str) -> tuple[str, str] | None:
    """A name that is no folder, and the remedy; None of a folder."""
    if paths.is_folder(paths.user_path(name)):
        return None
    return f"there is no folder {name}", paths.check_path(name)


def no_file(name: str) -> tuple[str, str] | None:
    """A name that is no file, and the remedy; None of a file."""
    if paths.is_file(paths.user_path(name)):
        return None
    return _no_plain_file(name) or (f"there is no file {name}", paths.check_path(name))


def no_match(name: str) -> tuple[str, str]:
    """The reason why a name matches no file, and the remedy."""
    if "://" in name:
        return f"no file is at {name}", "check the address and the rights; a pattern has a *"
    if paths.is_folder(paths.user_path(name)):
        return f"{name} is a folder", f'files("{name.rstrip("/")}/**/*.txt")'
    return _no_plain_file(name) or (f"no file matches {name}", paths.check_path(name))


def _no_plain_file(name: str) -> tuple[str, str] | None:
    """The kind of what has this name and is no plain file, and the remedy; None of others."""
    try:
        mode = os.stat(paths.user_path(name)).st_mode
    except (OSError, ValueError):
        return None
    wrong = f"{name} cannot be read: {_kind(mode)}"
    return None if stat.S_ISREG(mode) else (wrong, "a plain file with its content")


def _kind(mode: int) -> str:
    return "it is a folder" if stat.S_ISDIR(mode) else "it is no plain file"


def read_json(path: Path, max_bytes: int) -> dict[str, Any]:
    """The object in a JSON file of at most ``max_bytes``."""
    content = read_bytes(path, max_bytes)
    try:
        return parse_json(content, max_bytes)
    except ValueError as error:
        raise DataError(f"{path} {error}", help="copy the file again from its source") from None


def parse_json(content: bytes, max_bytes: int) -> dict[str, Any]:
    """The JSON object in ``content``; each key once."""
    if len(content) > max_bytes:
        raise ValueError(f"is larger than {max_bytes} bytes")
    try:
        value = json.loads(content, object_pairs_hook=_unique, parse_int=_integer)
        if not isinstance(value, dict):
            raise ValueError("is no JSON object")
        if b"\\ud" in content.lower():  # JSON may escape half of a surrogate pair
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise ValueError("is no JSON") from None
    except UnicodeEncodeError:
        raise ValueError("has half of a surrogate pair, whole characters expected") from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"says {shown(counts.most_common(1)[0][0])} twice")
    return value


def _integer(digits: str) -> int:
    if len(digits) > MAX_INTEGER_DIGITS:
        raise ValueError(f"has a number of {len(digits)} digits")
    return int(digits)


def shown(value: Any) -> str:
    """A value in a message: as JSON, on one line, shortened."""
    try:
        text = json.dumps(value)
    except RecursionError:
        text = "..."
    return text if len(text) <= 60 else f"{text[:57]}..."


def shown_name(name: str) -> str:
    """A name from a file in a message: bare where it is short and plain."""
    return name if len(name) <= 100 and name.isprintable() else shown(name)


def name_few(names: Sequence[str], most: int = 5) -> str:
    """The first names from a file, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(shown_name, names[:most])) + more
