"""Bounded reading of regular files: why one cannot be used, encodings other than UTF-8."""

import codecs
import errno
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from bertc.base.diagnostics import DataError, MissingInputError
from bertc.base.storage.paths import (
    StrPath,
    check_path,
    is_file,
    is_folder,
    user_path,
    working_folder,
)

ENCODINGS = (
    "latin_1", "cp1252", "cp1250", "iso8859_2", "cp1251", "koi8_r", "koi8_u", "iso8859_5", "cp866",
    "mac_cyrillic", "cp1253", "iso8859_7", "cp1254", "cp1255", "cp1256", "cp1257", "cp437", "cp850",
    "cp932", "euc_jp", "gb18030", "big5", "cp949", "cp874",
)  # fmt: skip
"""Encodings of text that iconv knows too; of those that read a text alike the first is named."""
SAMPLE_BYTES = 1 << 13
"""Bytes around the first that is not UTF-8 that are looked at."""
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


def not_utf8(path: StrPath, raw: bytes, at: int, line: int = 1) -> DataError:
    """The error of bytes that are not UTF-8 at ``at``; ``raw`` starts at ``line`` of the file."""
    line += raw.count(b"\n", 0, at)
    place = f"{path}:{line}: byte 0x{raw[at]:02x} is not UTF-8"
    begin = raw.rfind(b"\n", 0, max(0, at - SAMPLE_BYTES // 2)) + 1
    sample = raw[begin : at + SAMPLE_BYTES]
    text = sample.decode(errors="replace")
    if sum(c > "\x7f" for c in text) > 2 * text.count("\ufffd"):
        without = _converted(path, "UTF-8", "-c ")
        return DataError(f"{place}, though the text around it is", f"to drop it: {without}")
    name = _encoding(raw, sample)
    if not name:
        return DataError(place, help="save the file as UTF-8")
    return DataError(f"{place}; it seems to be {name}", help=_converted(path, name))


def refuse_utf_16(path: StrPath, raw: bytes) -> None:
    """Raise a DataError if text begins in UTF-16 without a mark, which UTF-8 may read too."""
    raw = raw[:SAMPLE_BYTES]
    even, odd = raw[::2].count(0), raw[1::2].count(0)
    if 100 * (even + odd) > len(raw) and not raw.startswith((*_UTF_16, *_UTF_32)):
        name = "UTF-16LE" if odd > even else "UTF-16BE"
        said = (
            f"{path}: {even + odd:,} of the first {len(raw):,} bytes are 0; it seems to be {name}"
        )
        raise DataError(said, help=_converted(path, name))


def _encoding(raw: bytes, sample: bytes) -> str:
    """The name of the encoding for iconv; "" if none reads it as words."""
    if raw.startswith(_UTF_32):
        return "UTF-32"
    if raw.startswith(_UTF_16):
        return "UTF-16"
    from charset_normalizer import from_bytes

    # Lines in ASCII are alike in all, and hide what the others are.
    lines = (sample[: sample.rfind(b"\n") + 1] or sample).split(b"\n")
    sample = b"\n".join(line for line in lines if not line.isascii())
    best = from_bytes(sample, cp_isolation=list(ENCODINGS)).best()
    names = best.could_be_from_charset if best else []
    first = next((name for name in ENCODINGS if name in names), None)
    return codecs.lookup(first).name.upper().replace("_", "-") if first else ""


def _converted(path: StrPath, encoding: str, option: str = "") -> str:
    """The command that writes the file as UTF-8, a compressed one as it was, and what to do then.

    The old file in place would be read again, of a folder or a pattern.
    """
    iconv = f"iconv {option}-f {encoding} -t UTF-8"
    if "://" in str(path):
        return f"copy it here and convert it: iconv {option}-f {encoding} -t UTF-8"
    path = Path(path)
    old, new = (shlex.quote(str(p)) for p in (path, path.with_name(f"utf8-{path.name}")))
    pack = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    command = f"{pack} -dc {old} | {iconv} | {pack} > {new}" if pack else f"{iconv} {old} > {new}"
    return f"{command}; then move the old file away, or name the new one in its place"


_REASONS = {
    errno.ENOENT: "it is not there",
    errno.ENOTDIR: "it is not there",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ELOOP: "it is a link that leads to itself",
    errno.ENAMETOOLONG: "its name is too long",
    errno.EISDIR: "it is a folder",
}


@contextmanager
def opened(path: StrPath) -> Iterator[BufferedReader]:
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


def read_bytes(path: StrPath, max_bytes: int) -> bytes:
    """The content of a plain file."""
    with opened(path) as file:
        # The size is checked first, so a file that is far too large is not read at all.
        if os.fstat(file.fileno()).st_size <= max_bytes:
            content = file.read(max_bytes + 1)
            if len(content) <= max_bytes:
                return content
    raise DataError(f"{path} is larger than {_amount(max_bytes)}")


def read_text(path: StrPath, max_bytes: int) -> str:
    """The text of a UTF-8 file; line ends stay as they are."""
    content = read_bytes(path, max_bytes)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise not_utf8(Path(path), content, error.start) from None


def refuse_pointer(path: StrPath) -> None:
    """Raise a DataError if a file has the pointer that a clone without git-lfs leaves there."""
    with opened(path) as file:
        if file.read(len(LFS_POINTER)) == LFS_POINTER:
            help = f"git lfs pull downloads it: run it in {Path(path).absolute().parent}"
            raise DataError(f"{path} is a pointer of git-lfs, without the content", help)


def size_bytes(path: StrPath) -> int:
    """The size of a plain file."""
    with opened(path) as file:
        return os.fstat(file.fileno()).st_size


def reason(error: OSError) -> str:
    """The reason behind an OSError, in the words of bertc's messages."""
    words = _REASONS.get(error.errno or 0)
    return words or (error.strerror or "it cannot be read").lower()


def _unreadable(path: StrPath, why: str) -> MissingInputError:
    message, help = f"cannot read {Path(path)}: {why}", "check the path"
    if why == _REASONS[errno.ENOENT]:
        message, help = f"{Path(path)} is not there", check_path(path)
    if not os.path.isabs(path) and not help.endswith("?"):
        help += f"; names of files begin in {working_folder()}"
    return MissingInputError(message, help)


def _amount(max_bytes: int) -> str:
    mib, rest = divmod(max_bytes, 2**20)
    return f"{max_bytes:,} bytes" if rest or not mib else f"{mib:,} MiB"


def no_folder(name: str) -> tuple[str, str] | None:
    """A name that is no folder, and the remedy; None of a folder."""
    return None if is_folder(user_path(name)) else (f"there is no folder {name}", check_path(name))


def no_file(name: str) -> tuple[str, str] | None:
    """A name that is no file, and the remedy; None of a file."""
    if is_file(user_path(name)):
        return None
    return _no_plain_file(name) or (f"there is no file {name}", check_path(name))


def no_match(name: str) -> tuple[str, str]:
    """The reason why a name matches no file, and the remedy."""
    if "://" in name:
        return f"no file is at {name}", "check the address and the rights; a pattern has a *"
    if is_folder(user_path(name)):
        return f"{name} is a folder", f'files("{name.rstrip("/")}/**/*.txt")'
    return _no_plain_file(name) or (f"no file matches {name}", check_path(name))


def _no_plain_file(name: str) -> tuple[str, str] | None:
    """The kind of what has this name and is no plain file, and the remedy; None of others."""
    try:
        mode = os.stat(user_path(name)).st_mode
    except (OSError, ValueError):
        return None
    wrong = f"{name} cannot be read: {_kind(mode)}"
    return None if stat.S_ISREG(mode) else (wrong, "a plain file with its content")


def _kind(mode: int) -> str:
    return "it is a folder" if stat.S_ISDIR(mode) else "it is no plain file"
