"""Numbers, words and truth values: the values that have no parts."""

from typing import Any, Final

from bertc.diagnostics import Diagnostics, Fix, Note, listed, nearest
from bertc.syntax.numbers import show_number
from bertc.syntax.shapes import Bounds, Choice, Real, Whole, Words
from bertc.syntax.tree import Call, Grid, Name, Number, Ratio, Scaled, Series, Sum, Text, Value

BAD: Final = object()
"""What a value becomes that was reported as wrong."""


class Scalars:
    """Reads scalars; ``what`` is the setting or argument that a value is for."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics

    def whole(self, value: Value, shape: Whole, what: str) -> Any:
        """An int within its bounds."""
        if not isinstance(value, Number):
            return self._not_a(value, "a whole number", what)
        if value.value is None:
            return BAD
        if value.percent or not isinstance(value.value, int):
            near = "" if value.percent else _into(round(value.value), shape.bounds)
            self.diagnostics.error(
                "E108",
                f"`{what}` is a whole number, not {value.text}",
                value.span,
                help=f"{what} = {near}" if near else "write it without %",
                fix=Fix(value.span, near) if near else None,
            )
            return BAD
        return self._within(value, value.value, shape.bounds, what)

    def real(self, value: Value, shape: Real, what: str) -> Any:
        """A float within its bounds; a percentage is a fraction."""
        if not isinstance(value, Number):
            return self._not_a(value, "a number", what)
        if value.value is None:
            return BAD
        return self._within(value, float(value.value), shape.bounds, what)

    def _within(self, value: Number, number: int | float, bounds: Bounds, what: str) -> Any:
        limit = ""
        if bounds.ge is not None and number < bounds.ge:
            limit = f"at least {show_number(bounds.ge)}"
        elif bounds.gt is not None and number <= bounds.gt:
            limit = f"above {show_number(bounds.gt)}"
        elif bounds.le is not None and number > bounds.le:
            limit = f"at most {show_number(bounds.le)}"
        elif bounds.lt is not None and number >= bounds.lt:
            limit = f"below {show_number(bounds.lt)}"
        if not limit:
            return number
        closest = _into(number, bounds)
        self.diagnostics.error(
            "E109",
            f"`{what}` is {value.text}, must be {limit}",
            value.span,
            help=f"{what} = {closest}" if closest else "",
            fix=Fix(value.span, closest) if closest else None,
        )
        return BAD

    def truth(self, value: Value, what: str) -> Any:
        """``true`` or ``false``."""
        if isinstance(value, Name) and value.text in ("true", "false"):
            return value.text == "true"
        return self._choose(value, ("true", "false"), what)

    def words(self, value: Value, shape: Words, what: str) -> Any:
        """Free text, in quotes unless it is one word."""
        if not isinstance(value, Text | Name):
            return self._not_a(value, "a string", what, f'"{value.span.text}"')
        text = value.value if isinstance(value, Text) else value.text
        if len(text) < shape.min_length:
            self.diagnostics.error("E109", f"`{what}` is empty", value.span)
            return BAD
        return text

    def choice(self, value: Value, shape: Choice, what: str) -> Any:
        """One word of a list."""
        if isinstance(value, Name) and value.text in shape.options:
            return value.text
        return self._choose(value, shape.options, what)

    def _choose(self, value: Value, options: tuple[str, ...], what: str) -> Any:
        """Report a word that is not on the list."""
        if isinstance(value, Number) and value.value is None:
            return BAD
        written = value.text if isinstance(value, Name) else value.span.text.strip("\"'")
        synonyms = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false"}
        near = nearest(written, options)
        if not near and options == ("true", "false"):
            near = synonyms.get(written.lower(), "false" if written == "0" else "")
        self.diagnostics.error(
            "E103" if isinstance(value, Name) else "E108",
            f"`{what}` cannot be {described(value)}",
            value.span,
            label=f"did you mean `{near}`?" if near else "",
            notes=(Note(f"it is one of: {listed(options)}"),),
            help=f"{what} = {near or options[0]}",
            fix=Fix(value.span, near or options[0]),
        )
        return BAD

    def _not_a(self, value: Value, wanted: str, what: str, instead: str = "") -> Any:
        """Report a value of the wrong kind."""
        if isinstance(value, Number) and value.value is None:
            return BAD
        if isinstance(value, Text) and not instead:
            inside = value.value.strip()
            instead = inside if inside[:1].isdigit() and inside.isalnum() else ""
        short = instead and len(instead) <= 60
        self.diagnostics.error(
            "E108",
            f"`{what}` is {wanted}, not {described(value)}",
            value.span,
            help=f"{what} = {instead}" if short else "",
            fix=Fix(value.span, instead) if short else None,
        )
        return BAD


def described(value: Value) -> str:
    """A value in a few words, quoted where it is short."""
    match value:
        case Number():
            return f"the number {value.text}"
        case Name():
            return f"`{value.text[:40]}`"
        case Text():
            return "a string"
        case Call():
            return f"`{value.name.text[:40]}(...)`"
        case Series():
            return "a list"
        case Ratio():
            return "a ratio"
        case Scaled():
            return "a weighted term"
        case Sum():
            return "a sum"
        case Grid():
            return "a grid"


def _into(number: int | float, bounds: Bounds) -> str:
    """The closest allowed number, as text; empty where a bound is open and has no closest."""
    if bounds.ge is not None and number < bounds.ge:
        return show_number(bounds.ge)
    if bounds.le is not None and number > bounds.le:
        return show_number(bounds.le)
    if bounds.gt is not None and number <= bounds.gt:
        return show_number(bounds.le) if bounds.le is not None and bounds.le <= 1 else ""
    if bounds.lt is not None and number >= bounds.lt:
        return ""
    return show_number(number)
