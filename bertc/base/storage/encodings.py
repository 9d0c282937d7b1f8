"""Text that is not UTF-8: the encoding it seems to have, and the command that converts it."""

import codecs
import shlex
from pathlib import Path

from bertc.base.diagnostics import DataError

ENCODINGS = (
    "latin_1", "cp1252", "cp1250", "iso8859_2", "cp1251", "koi8_r", "koi8_u", "iso8859_5", "cp866",
    "mac_cyrillic", "cp1253", "iso8859_7", "cp1254", "cp1255", "cp1256", "cp1257", "cp437", "cp850",
    "cp932", "euc_jp", "gb18030", "big5", "cp949", "cp874",
)  # fmt: skip
"""Encodings of text that iconv knows too; of those that read a text alike the first is named."""
SAMPLE_BYTES = 1 << 13
"""Bytes around the first that is not UTF-8 that are looked at."""
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def not_utf8(path: Path, raw: bytes, at: int, line: int = 1) -> DataError:
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


def _encoding(raw: bytes, sample: bytes) -> str:
    """The name of the encoding for iconv; "" if none reads it as words."""
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


def _converted(path: Path, encoding: str, option: str = "") -> str:
    """The command that writes the file as UTF-8, a compressed one as it was, and what to do then.

    The old file in place would be read again, of a folder or a pattern.
    """
    iconv = f"iconv {option}-f {encoding} -t UTF-8"
    old, new = (shlex.quote(str(p)) for p in (path, path.with_name(f"utf8-{path.name}")))
    pack = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    command = f"{pack} -dc {old} | {iconv} | {pack} > {new}" if pack else f"{iconv} {old} > {new}"
    return f"{command}; then move the old file away, or name the new one in its place"
