"""Conversion of values without parts, and the form of a value that may have several."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, assert_never

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
    """The setting or argument of a value: its name in messages, and the text before the value.

    ``of`` is the setting of an argument whose name is not written.
    """

    name: str
    prefix: str
    of: str = ""

    def refuse(
        self,
        value: tree.Value,
        code: str,
        problem: str,
        diagnostics: Diagnostics,
        instead: str = "",
        *,
        label: str = "",
        note: str = "",
        help: str = "",
    ) -> None:
        """Report a value with a ``problem``; ``instead`` is to be written in its place."""
        diagnostics.error(
            code,
            f"`{self.name}` {problem}",
            value.span,
            label=label,
            notes=(Note(note),) if note else (),
            help=self.prefix + instead if instead else help,
            fix=Fix(value.span, instead) if instead else None,
        )


class Scalars(NamedTuple):
    """A converter for scalars, which reports those that do not fit."""

    diagnostics: Diagnostics

    def read(self, value: tree.Value, shape: shapes.ScalarShape, slot: Slot) -> Any:
        """Convert a scalar; returns BAD after reporting a mistake."""
        if isinstance(value, tree.Number) and value.value is None:
            return BAD  # reported when it was read
        if isinstance(value, tree.Number) and value.unit:
            return self._of_tokens(value, slot)
        match shape:
            case shapes.WholeShape():
                if not isinstance(value, tree.Number) or not isinstance(value.value, int):
                    return self._not_a(value, "a whole number", slot)
                return self._within(value, value.value, shape.bounds, slot)
            case shapes.RealShape():
                if not isinstance(value, tree.Number) or value.value is None:
                    return self._not_a(value, "a number", slot)
                return self._within(value, float(value.value), shape.bounds, slot)
            case shapes.TruthShape():
                if isinstance(value, tree.Name) and value.text in ("true", "false"):
                    return value.text == "true"
                return self._choose(value, ("true", "false"), slot)
            case shapes.TextShape():
                return self._words(value, shape, slot)
            case shapes.ChoiceShape():
                if isinstance(value, tree.Name) and value.text in shape.options:
                    return value.text
                return self._choose(value, shape.options, slot)
        assert_never(shape)

    def _of_tokens(self, value: tree.Number, slot: Slot) -> Any:
        """Report a number of tokens, FLOPs or hours where something else is counted."""
        unit, instead = unit_of(value.text), ""
        if slot.name == "steps" and not slot.of and unit != TOKENS_UNIT:
            instead = f"equal({value.text})"
        elif unit == TOKENS_UNIT:
            instead = value.text.removesuffix(unit).rstrip()
        problem, help = f"is not counted in {unit}", "a number without a unit"
        slot.refuse(value, "E326", problem, self.diagnostics, instead, help=help)
        return BAD

    def _within(
        self, value: tree.Number, number: int | float, bounds: shapes.Limits, slot: Slot
    ) -> Any:
        if bounds.hold(number):
            return number
        # Only a whole number of percents can mean nothing else.
        plain = isinstance(value.value, int) and number >= LEAST_PERCENTS
        percent = plain and (bounds.le or bounds.lt or 2) <= 1 and bounds.hold(number / 100)
        problem, instead = f"is {value.text}, must be {bounds}", f"{value.text}%" if percent else ""
        if (unit := unit_of(value.text)) and number <= 0:
            instead = f"1{' ' * (unit not in HOURS)}{unit}"
        slot.refuse(value, "E109", problem, self.diagnostics, instead)
        return BAD

    def _words(self, value: tree.Value, shape: shapes.TextShape, slot: Slot) -> Any:
        """Convert free text, in quotes unless it is one word."""
        if not isinstance(value, tree.String | tree.Name):
            return self._not_a(value, "a string", slot)
        text = value.value if isinstance(value, tree.String) else value.text
        if len(text) < shape.min_length:
            self.diagnostics.error("E109", f"`{slot.name}` is empty", value.span)
            return BAD
        if shape.plain and not is_plain(text):
            problem = f"cannot be {value.span.text[:60]}"
            slot.refuse(value, "E109", problem, self.diagnostics, note=NAME_RULE)
            return BAD
        return text

    def _choose(self, value: tree.Value, options: tuple[str, ...], slot: Slot) -> Any:
        """Report a value that is not among the options."""
        written = value.text if isinstance(value, tree.Name) else value.span.text.strip("\"'")
        synonyms = next((words for words in (_YES, _NO) if written.lower() in words), ())
        same_truth = (option for option in options if option in synonyms)
        near = next(same_truth, "") or nearest(written, options)
        slot.refuse(
            value,
            "E103" if isinstance(value, tree.Name) else "E108",
            f"{slot.of and f'of `{slot.of}` '}cannot be {describe_value(value)}",
            self.diagnostics,
            near,
            label=f"did you mean `{near}`?" if near else "",
            note=f"it is one of: {', '.join(options)}",
        )
        return BAD

    def _not_a(self, value: tree.Value, expected: str, slot: Slot) -> Any:
        slot.refuse(value, "E108", f"is {expected}, not {describe_value(value)}", self.diagnostics)
        return BAD


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
    """The option that fits the form of a value."""
    kinds = [option for option in shape.options if isinstance(option, shapes.KindShape)]
    if isinstance(value, tree.Number) and value.unit:
        counted = (o for o in kinds if any(n.number_unit == value.unit for n in o.options.values()))
        return next(counted, (kinds or shape.options)[0])
    if isinstance(value, tree.Call):
        return next((o for o in kinds if value.name.text in o.options), (kinds or shape.options)[0])
    for option in shape.options:
        match option, value:
            case ((shapes.ChoiceShape() | shapes.KindShape()), tree.Name(text=text)):
                if text in option.options:
                    return option
            case (
                (shapes.ListShape(), tree.Series() | tree.Sum())
                | (shapes.TextShape(), tree.String())
                | (shapes.RealShape(), tree.Number(value=float()))
                | (shapes.WholeShape(), tree.Number(value=int()))
            ):
                return option
    named = [
        option
        for option in shape.options
        if isinstance(option, shapes.ChoiceShape | shapes.KindShape)
    ]
    if len(named) == len(shape.options):
        return shapes.ChoiceShape(tuple(word for option in named for word in _words_of(option)))
    choices = (option for option in shape.options if isinstance(option, shapes.ChoiceShape))
    known = tuple(word for option in choices for word in option.options)
    if isinstance(value, tree.Name) and nearest(value.text, known):  # `freeze=al`
        integers = any(isinstance(option, shapes.WholeShape) for option in shape.options)
        return shapes.ChoiceShape((*known, *["a whole number"] * integers))
    return shape.options[0]
