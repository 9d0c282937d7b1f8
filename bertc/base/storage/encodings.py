"""Text that is not UTF-8: the encodings that it may be in, by what they make of it."""

import re
import shlex
import unicodedata
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, BOM_UTF32_BE, BOM_UTF32_LE, lookup
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter
from pathlib import Path

from bertc.base.diagnostics import DataError, several
from bertc.base.diagnostics.render import escaped
from bertc.base.storage.paths import StrPath

ENCODINGS = (
    "CP1252", "ISO8859-15", "MACINTOSH", "CP850", "CP1250", "ISO8859-2", "CP852", "CP1257",
    "MAC-CENTRALEUROPE", "ISO8859-13", "CP1254", "CP1255", "ISO8859-6", "CP1251", "KOI8-R",
    "KOI8-U", "ISO8859-5", "CP866", "MAC-CYRILLIC", "CP1253", "ISO8859-7", "CP1256", "CP437",
    "CP737", "CP775", "CP855", "CP857", "CP860", "CP861", "CP863", "CP865", "CP869",
    "ISO8859-4", "ISO8859-16", "CP932", "EUC-JP", "GB18030", "BIG5", "CP949", "CP874", "JOHAB",
)  # fmt: skip
"""Encodings of text by iconv's names; of those that read it alike the first counts."""
_LETTERS = (
    "äöüß", "àâçéèêëîïôùûüÿœæ", "áéíóúñü", "àçèéíïòóúü·", "àáâãçéêíóôõú", "àèéìíòóù", "åäöéæø",
    "áðéíóúýþæö", "çğıöşüâîû\u0307",  # of a small İ
    "áäčďéěíĺľňóôŕřšťúůýž", "ąćęłńóśźż", "áéíóöőúüű", "čćđšž", "ăâîşţșț", "ąčęėįšųūž",
    "āčēģīķļņōŗšūž", "äõöüšž", "абвгдежзийклмнопрстуфхцчшщъыьэюяё",
    "абвгдежзийклмнопрстуфхцчшщьюяєіїґ", "абвгдђежзијклљмнњопрстћуфхцчџш",
    "άαβγδέεζήηθίϊΐικλμνξόοπρσςτύϋΰυφχψώω",
)  # fmt: skip
"""Letters of languages beside those of ASCII."""
_SIGNS = "’‘“”„«»–—…€°§·¿¡ºª\xa0，。、！？：；（）《》「」『』・\u3000"
SAMPLE_BYTES, LOOKED_AT_BYTES = 1 << 13, 1 << 16
"""Bytes around the first that is not UTF-8, and of lines that are not ASCII, that are looked at."""
MOST_DROPPED = 8
"""Bytes of a sample that are a slip; more of them are text in another encoding."""
MOST_READINGS, _ALIKE = 3, 0.03
"""Encodings that are named, and by how much, besides a character, a rank may be more."""
_SHOWN_BEFORE, _SHOWN = 20, 40
"""Characters of a line that are shown, before the first that differs and in all."""
CONTROLS = re.compile("[\x80-\x9f]")
"""Control characters that no text has in UTF-8, and in other encodings letters or signs."""
_STRAY = r"(?<=[a-z])([\u2e80-\uffff](?![\u2e80-\uffff])|[^\w\s·’‘\0-\x7f](?=[a-z]))"
"""A sign within a word; one of East Asia by itself after a letter. To compile it takes 10 ms."""
_WORD = re.compile(r"[^\W\d_]+")
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
    marked = [name for name, mark in _MARKS.items() if raw.startswith(mark)][:1]
    sample = _beyond_ascii(raw[begin:])
    if not (names := marked or _encodings(sample)):
        return DataError(place, help="save the file as UTF-8")
    help = _conversion(path, f"-f {names[0]} -t UTF-8")
    help += "; if another line is right, with its name in place of the first" * bool(names[1:])
    lines = names if marked else map('{} ("{}")'.format, names, _shown(sample, *names))
    return DataError(f"{place}; it seems to be {' or '.join(lines)}", help)


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
    for wrong in ("ISO8859-1", "ISO8859-2"):
        with suppress(UnicodeEncodeError):
            for right in _encodings(_beyond_ascii(text.encode(wrong))):
                back = _conversion(path, f"-f UTF-8 -t {wrong}", f"-f {right} -t UTF-8")
                yield DataError(message, f"it seems {right} that was read as {wrong}: {back}")
                return
    yield DataError(message, "convert its source again, from the encoding that it is in")


def _beyond_ascii(raw: bytes) -> bytes:
    """Lines that are not ASCII, of whole words: others are alike in all encodings."""
    lines = (line for line in _whole_words(raw, SAMPLE_BYTES).split(b"\n") if not line.isascii())
    return _whole_words(b"\n".join(lines)[:LOOKED_AT_BYTES], LOOKED_AT_BYTES)


def _whole_words(raw: bytes, cut_at: int) -> bytes:
    """The bytes without a last word that may be cut; shorter ones are to the end of their file."""
    end = max(raw.rfind(b"\n"), raw.rfind(b" ")) + 1
    return raw if len(raw) < cut_at or not end else raw[:end]


def _codec(name: str) -> str:
    return lookup("mac_latin2" if name == "MAC-CENTRALEUROPE" else name).name


def _encodings(sample: bytes) -> list[str]:
    """The names of encodings by which a text reads best, and not the same, for iconv."""
    from charset_normalizer import from_bytes

    # The threshold leaves none out: what is like another would go with it.
    matches = from_bytes(sample, cp_isolation=[*map(_codec, ENCODINGS)], threshold=1.0)
    faults = {lookup(n).name: m.chaos for m in matches for n in m.could_be_from_charset}
    ranks: dict[str, tuple[float, str]] = {}
    for name in ENCODINGS:
        with suppress(UnicodeDecodeError, KeyError):
            if not CONTROLS.search(text := sample.decode(_codec(name))):
                rank = faults[_codec(name)] / 10 + _strangeness(text)
                ranks.setdefault(text, (round(rank, 3), name))
    ordered = sorted(ranks.values(), key=itemgetter(0))
    alike = _ALIKE + 1 / max(1, sum(byte > 127 for byte in sample))
    best = [name for rank, name in ordered if rank <= ordered[0][0] + alike]
    return best[:MOST_READINGS]


def _strangeness(text: str) -> float:
    """The fraction of characters beyond ASCII that do not belong together in a language."""
    plain = _WORD.sub(lambda word: word[0] if _is_plain(word[0]) else "?" * len(word[0]), text)
    counts = Counter(c for c in plain.lower() if not c.isascii() and c not in _SIGNS)
    of_script = sum(n for c, n in counts.items() if unicodedata.category(c) in ("Lo", "Mn"))
    of_script -= len(re.findall(_STRAY, text))
    of_language = max(sum(counts[letter] for letter in {*letters}) for letters in _LETTERS)
    beyond = sum(not c.isascii() and c not in _SIGNS for c in text)
    return 1 - max(of_script, of_language) / beyond if beyond else 0.0


def _is_plain(word: str) -> bool:
    """True unless capitals follow other letters, or letters of two alphabets touch."""
    alphabets = {c.isascii() for c in word if c.isascii() or "\u0250" < c < "\u2e80"}
    return len(alphabets) < 2 and word[1:] in (word[1:].lower(), word[1:].upper())


def _shown(sample: bytes, *names: str) -> list[str]:
    """A line by each of some encodings, from shortly before what differs, or is not ASCII."""
    readings = (sample.decode(_codec(name), "replace").split("\n") for name in names)
    line = max(zip(*readings, strict=False), key=lambda texts: len({*texts}))
    if names[1:]:
        differing = (n for n, signs in enumerate(zip(*line, strict=False)) if len({*signs}) > 1)
    else:
        differing = (n for n, sign in enumerate(line[0]) if not sign.isascii())
    begin = max(0, next(differing, 0) - _SHOWN_BEFORE)
    return [escaped(text[begin : begin + _SHOWN].strip()) for text in line]


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
