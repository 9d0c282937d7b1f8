"""Conversion of values without parts, and the form of a value that may have several."""

from collections.abc import Collection, Iterator
from typing import Any, Final, NamedTuple

from bertc.base.diagnostics import Diagnostics, Fix, Note, nearest
from bertc.ir.base import NAME_RULE, is_plain
from bertc.lang.read import shapes, tree
from bertc.lang.read.numbers import HOURS, TOKENS_UNIT, unit_of

LEAST_PERCENTS = 5
"""The least number that is taken for percents: 2 may be a factor."""

BAD: Final = object()
"""The result of converting a wrong value, which has been reported."""

_YES, _NO = ("yes", "true", "on", "1"), ("no", "false", "off", "0")
"""Other spellings of true and false, and of on and off."""
_FORMS = {
    tree.String: "a string", tree.Series: "a list", tree.Ratio: "a ratio", tree.Sum: "a sum",
    tree.Scaled: "a weighted term", tree.Range: "a range", tree.Grid: "a grid",
}  # fmt: skip


class Slot(NamedTuple):
    """A value with the name of its setting or argument, where its mistakes are reported.

    ``prefix`` is the text before the value, ``of`` the setting of an argument whose name is not
    written.
    """

    value: tree.Value
    diagnostics: Diagnostics
    name: str
    prefix: str
    of: str = ""

    def refuse(
        self,
        code: str,
        problem: str,
        instead: str = "",
        *,
        label: str = "",
        note: str = "",
        help: str = "",
    ) -> Any:
        """Report a ``problem``, with what to write ``instead`` of the value; returns BAD."""
        self.diagnostics.error(
            code,
            f"`{self.name}` {problem}",
            self.value.span,
            label=label,
            notes=(Note(note),) if note else (),
            help=help or (self.prefix + instead if instead else ""),
            fix=Fix(self.value.span, instead) if instead else None,
        )
        return BAD


def read_scalar(shape: shapes.ScalarShape, slot: Slot) -> Any:
    """Convert a scalar; returns BAD after reporting a mistake."""
    match shape, slot.value:
        case _, tree.Number(value=None):
            return BAD  # reported when it was read
        case _, tree.Number(unit=unit, text=text) if unit:
            return _refuse_unit(text, slot)
        case shapes.NumberShape(), tree.Number(text=text, value=int() as number):
            return _check_number(number, text, shape, slot)
        case shapes.NumberShape(integer=False), tree.Number(text=text, value=float() as number):
            return _check_number(number, text, shape, slot)
        case shapes.TextShape(), tree.String(value=text) | tree.Name(text=text):
            return _check_text(text, shape, slot)
        case shapes.ChoiceShape(options), tree.Name(text=text) if text in options:
            return options[text]
        case shapes.ChoiceShape(options), _:
            return _refuse_word(options, slot)
    expected = "a string"
    if isinstance(shape, shapes.NumberShape):
        expected = "a whole number" if shape.integer else "a number"
    return slot.refuse("E108", f"is {expected}, not {describe_value(slot.value)}")


def _refuse_unit(text: str, slot: Slot) -> Any:
    """Report a number of tokens, FLOPs or hours where something else is counted."""
    unit, instead = unit_of(text), ""
    if slot.name == "steps" and not slot.of and unit != TOKENS_UNIT:
        instead = f"equal({text})"
    elif unit == TOKENS_UNIT:
        instead = text.removesuffix(unit).rstrip()
    help = "" if instead else "a number without a unit"
    return slot.refuse("E326", f"is not counted in {unit}", instead, help=help)


def _check_number(number: int | float, text: str, shape: shapes.NumberShape, slot: Slot) -> Any:
    """A number within its limits; any other is reported."""
    limits = shape.bounds
    if limits.hold(number):
        return number if shape.integer else float(number)
    # Only a whole number of percents can mean nothing else.
    plain = isinstance(number, int) and number >= LEAST_PERCENTS
    percent = plain and (limits.le or limits.lt or 2) <= 1 and limits.hold(number / 100)
    instead = f"{text}%" if percent else ""
    if (unit := unit_of(text)) and number <= 0:
        instead = f"1{' ' * (unit not in HOURS)}{unit}"
    return slot.refuse("E109", f"is {text}, must be {limits}", instead)


def _check_text(text: str, shape: shapes.TextShape, slot: Slot) -> Any:
    """A text that its rules allow; any other is reported."""
    if len(text) < shape.min_length:
        return slot.refuse("E109", "is empty")
    if shape.plain and not is_plain(text):
        return slot.refuse("E109", f"cannot be {slot.value.span.text[:60]}", note=NAME_RULE)
    return text


def _refuse_word(options: Collection[str], slot: Slot) -> Any:
    """Report a value that is not among the options."""
    value = slot.value
    written = value.text if isinstance(value, tree.Name) else value.span.text.strip("\"'")
    synonyms = next((words for words in (_YES, _NO) if written.lower() in words), ())
    same_truth = (option for option in options if option in synonyms)
    near = next(same_truth, "") or nearest(written, options)
    return slot.refuse(
        "E103" if isinstance(value, tree.Name) else "E108",
        f"{slot.of and f'of `{slot.of}` '}cannot be {describe_value(value)}",
        near,
        label=f"did you mean `{near}`?" if near else "",
        note=f"it is one of: {', '.join(options)}",
    )


def describe_value(value: tree.Value) -> str:
    """A value in a few words, for messages."""
    match value:
        case tree.Number():
            return f"the number {value.text}"
        case tree.Name():
            return f"`{value.text[:40]}`"
        case tree.Call():
            return f"`{value.name.text[:40]}(...)`"
        case _:
            return _FORMS[type(value)]


def _words_of(shape: shapes.ChoiceShape | shapes.KindShape) -> Iterator[str]:
    """The words of a shape; of a number with a unit what it is, since its kind is not written."""
    for word in shape.options:
        unit = shape.options[word].number_unit if isinstance(shape, shapes.KindShape) else ""
        yield f"a number of {unit}" if unit else word


def option_of(value: tree.Value, shape: shapes.EitherShape) -> shapes.Shape:
    """The option that fits the form of a value, or else one to report the value by."""
    for option in shape.options:
        if _fits_form(value, option):
            return option
    named = [o for o in shape.options if isinstance(o, shapes.ChoiceShape | shapes.KindShape)]
    if isinstance(value, tree.Call) or (isinstance(value, tree.Number) and value.unit):
        kinds = (option for option in named if isinstance(option, shapes.KindShape))
        return next(kinds, shape.options[0])
    if len(named) == len(shape.options):
        words = (word for option in named for word in _words_of(option))
        return shapes.ChoiceShape(dict.fromkeys(words))
    known = shapes.choice_words(shape)
    if isinstance(value, tree.Name) and nearest(value.text, known):  # `freeze=al`
        counted = any(isinstance(o, shapes.NumberShape) and o.integer for o in shape.options)
        return shapes.ChoiceShape(dict.fromkeys((*known, *["a whole number"] * counted)))
    return shape.options[0]


def _fits_form(value: tree.Value, shape: shapes.Shape) -> bool:
    """True if a value has the form of a shape, whatever its parts are."""
    match shape, value:
        case shapes.KindShape(options), tree.Call(name=tree.Name(text=word)):
            return word in options
        case shapes.KindShape(options), tree.Number(unit=unit) if unit:
            return any(node.number_unit == unit for node in options.values())
        case ((shapes.ChoiceShape(options) | shapes.KindShape(options)), tree.Name(text=word)):
            return word in options
        case shapes.NumberShape(integer=integer), tree.Number(unit="", value=int() | float()):
            return integer == isinstance(value.value, int)
        case shapes.ListShape(), tree.Series() | tree.Sum():
            return True
        case shapes.TextShape(), tree.String():
            return True
    return False
