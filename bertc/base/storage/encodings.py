"""Text that is not UTF-8: how it is converted."""

import re
import shlex
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE
from collections.abc import Iterator
from pathlib import Path

from bertc.base.diagnostics import DataError, escaped, several
from bertc.base.storage.paths import StrPath

SAMPLE_BYTES = 1 << 13
"""Bytes around the first that is not UTF-8 that are looked at."""
MOST_DROPPED = 8
"""Bytes of a sample that are a slip; more of them are text in another encoding."""
_SHOWN_BEFORE, _SHOWN = 20, 40
"""Characters that are shown before the first wrong one, and in all."""
CONTROLS = re.compile("[\x80-\x9f]")
"""Control characters that no text has in UTF-8, and in other encodings letters or signs."""
_MARKS = {"UTF-32": (BOM_UTF32_LE, BOM_UTF32_BE), "UTF-16": (BOM_UTF16_LE, BOM_UTF16_BE)}
"""Marks at the beginning of text; that of UTF-16 is the beginning of that of UTF-32."""


def not_utf8(path: StrPath, raw: bytes, offset: int, line: int = 1) -> DataError:
    """The error of bytes at ``offset`` that are not UTF-8; ``raw`` starts at ``line`` of a file."""
    line += raw.count(b"\n", 0, offset)
    place = f"{path}:{line}: byte 0x{raw[offset]:02x} is not UTF-8"
    begin = raw.rfind(b"\n", 0, max(0, offset - SAMPLE_BYTES // 2)) + 1
    text = raw[begin : offset + SAMPLE_BYTES].decode(errors="replace")
    wrong = text.count("\ufffd")
    if sum(c > "\x7f" for c in text) > 2 * wrong:
        drop = f"to drop it: {_conversion(path, '-c -f UTF-8 -t UTF-8')}"
        convert = "convert its lines that are in another encoding"
        help = drop if wrong <= MOST_DROPPED else convert
        return DataError(f"{place}, though the text around it is", help)
    for name, marks in _MARKS.items():
        if raw.startswith(marks):
            help = _conversion(path, f"-f {name} -t UTF-8")
            return DataError(f"{place}; it seems to be {name}", help)
    named = "with the name of its encoding in place of CP1252, which `file -i` guesses"
    return DataError(place, f"{_conversion(path, '-f CP1252 -t UTF-8')}; {named}")


def refuse_utf_16(path: StrPath, raw: bytes) -> None:
    """Raise a DataError if text begins in UTF-16 without a mark, which UTF-8 may read too."""
    raw = raw[:SAMPLE_BYTES]
    first, second, third, fourth = zeros = [raw[place::4].count(0) for place in range(4)]
    if 100 * sum(zeros) > len(raw) and not any(map(raw.startswith, _MARKS.values())):
        name = "UTF-16LE" if second + fourth > first + third else "UTF-16BE"
        if max(1, len(raw) // 4) in (min(first, second), min(third, fourth)):
            name = "UTF-32LE" if fourth > first else "UTF-32BE"
        count = f"{sum(zeros):,} of the first {len(raw):,} bytes are 0"
        message = f"{path}: {count}; it seems to be {name}"
        raise DataError(message, _conversion(path, f"-f {name} -t UTF-8"))


def controls_in(path: StrPath, text: str) -> Iterator[DataError]:
    """An error for control characters that another encoding left in a text, if any."""
    places = [] if text.isascii() else [match.start() for match in CONTROLS.finditer(text)]
    if not places:
        return
    begin = max(0, places[0] - _SHOWN_BEFORE)
    excerpt = escaped(" ".join(text[begin : begin + _SHOWN].split()))
    count = several(len(places), "control character")
    message = f'{path}: {count} of U+0080 to U+009F, as in "{excerpt}"'
    try:
        text.encode("latin-1").decode("cp1252")
    except UnicodeError:
        help = "convert its source again, from the encoding that it is in"
    else:
        back = _conversion(path, "-f UTF-8 -t ISO8859-1", "-f CP1252 -t UTF-8")
        help = f"it seems CP1252 that was read as ISO8859-1: {back}"
    yield DataError(message, help)


def _conversion(path: StrPath, *steps: str) -> str:
    """The command that writes the file as UTF-8, a compressed one as it was, and what to do then.

    The old file in place would be read again, of a folder or a pattern.
    """
    first, *later = (f"iconv {step}" for step in steps)
    if "://" in str(path):
        return f"copy it here and convert it: {' | '.join((first, *later))}"
    path = Path(path)
    old, new = (shlex.quote(str(p)) for p in (path, path.with_name(f"utf8-{path.name}")))
    pack = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    piped = [f"{pack} -dc {old}", first, *later, pack] if pack else [f"{first} {old}", *later]
    command = f"{' | '.join(piped)} > {new}"
    return f"{command}; then move the old file away, or name the new one in its place"
