"""Numbers of the language: ``30k`` ``8Ki`` ``15%`` ``5ms`` ``1e-4`` ``-1`` ``3G tokens`` ``2h``."""

import math
import re
from fractions import Fraction
from functools import lru_cache

NUMBER_UNITS = {
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "ms": Fraction(1, 1000),
    "%": Fraction(1, 100),
}
MAX_NUMBER_CHARACTERS = 40
KEPT_NUMBERS = 1024
"""Values kept: a spec writes the same few numbers again and again, and each is read twice."""
TOKENS_UNIT = "tokens"
"""The word that makes a number one of tokens."""
COUNTED_UNITS = (TOKENS_UNIT, "flops", "words", "epochs")
"""Words that say what a number counts, but for those of time."""
HOURS_UNIT = "h"
HOURS = {"s": Fraction(1, 3600), "min": Fraction(1, 60), "h": Fraction(1), "d": Fraction(24)}
"""Units of time, each in hours."""
_LETTERS = re.compile(r"[A-Za-z]+$")
_LITERAL = re.compile(r"(-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?(\d+))?)([A-Za-z]*%?)", re.ASCII)
MOST_EXPONENT_DIGITS = 3
"""Digits of an exponent: exact powers of ten of more take gigabytes."""
_RANGE = re.compile(r"(.*?)[ \t]*\.\.[ \t]*([^: \t]*)")


class NotANumberError(ValueError):
    """Text that is not a number; ``instead`` is the number probably meant, or empty."""

    def __init__(self, message: str, instead: str = "") -> None:
        super().__init__(message)
        self.instead = instead


@lru_cache(KEPT_NUMBERS)
def read_number(text: str) -> int | float:
    """The value of a literal: an int if it is whole, else a correctly rounded float."""
    if len(text) > MAX_NUMBER_CHARACTERS:
        raise NotANumberError(
            f"a number of {len(text)} characters; at most {MAX_NUMBER_CHARACTERS} are read"
        )
    word = unit_of(text)
    text = text.removesuffix(word).rstrip()
    if not word and text.isascii() and text.isdecimal():
        return int(text)  # as most numbers are: the way below takes ten times as long
    match = _LITERAL.fullmatch(text)
    if match is None:
        plain = text.replace("_", "")
        instead = plain if plain != text and _LITERAL.fullmatch(plain) else ""
        raise NotANumberError(f"`{text}` is not a number", instead)
    digits, exponent, unit = match.groups()
    if len(exponent or "") > MOST_EXPONENT_DIGITS:
        raise NotANumberError(f"`{text}` has an exponent of over {MOST_EXPONENT_DIGITS} digits")
    if unit == "m":
        raise NotANumberError("`m` is not a unit: M is a million, min a minute")
    if unit not in NUMBER_UNITS:
        spelled = [u for u in NUMBER_UNITS if u and u.lower() == unit.lower()]
        close = [u for u in ("k", "M", "G", "T") if u.lower() == unit[:1].lower()]
        billion = ["G"] if unit.lower() in ("b", "bn") else []
        known = next(iter([*spelled, *close, *billion]), "")
        instead = f"{digits}{known} {word}".rstrip() if known else ""
        raise NotANumberError(f"`{unit}` is not a unit", instead)
    if not math.isfinite(float(digits) * float(NUMBER_UNITS[unit])):
        raise NotANumberError(f"`{text}` is too large for a number")
    exact = Fraction(digits) * NUMBER_UNITS[unit] * HOURS.get(word, 1)
    return exact.numerator if exact.denominator == 1 and unit != "%" else float(exact)


def unit_of(text: str) -> str:
    """The word at the end of a number that says what it counts; empty without one."""
    if text[-1:].isdecimal():
        return ""
    letters = _LETTERS.search(text)
    of_time = letters[0] if letters and letters[0] in HOURS else ""
    return next(filter(text.endswith, COUNTED_UNITS), of_time)


def range_ends(text: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Start and end of both numbers in the text of a range."""
    match = _RANGE.match(text)
    assert match is not None, "the grammar's pattern of a range has both"
    return match.span(1), match.span(2)


def show_hours(hours: float) -> str:
    """The text of a time in hours, with the unit that needs the fewest digits."""
    texts = {f"{show_number(round(hours / float(HOURS[u]), 9))}{u}" for u in ("h", "min", "s")}
    exact = [text for text in sorted(texts) if read_number(text) == hours]
    digits = {text: len(text.rstrip("hmins")) - text.endswith("h") for text in exact}
    shortest = min(exact, key=digits.__getitem__, default=f"{show_number(hours)}h")
    return shortest.replace("h", f" {HOURS_UNIT}")


def show_number(value: int | float) -> str:
    """The shortest literal that reads back as the same value."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e16:
        return str(int(value))
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if e else text
