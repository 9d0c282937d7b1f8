"""Names and values that settings allow at a place: known names, kinds, the values of each."""

from functools import reduce
from typing import NamedTuple

from bertc.lab.editor.place import Bracket, CursorPlace, Level
from bertc.lab_api import AllowedValues, ValueKind, schema

STAGE = "stage"


class ArgumentSlot(NamedTuple):
    """An argument of a kind; ``name`` is empty where there is no further one without a name."""

    kind: ValueKind
    name: str = ""


def full_name(setting: str) -> str:
    """The name of a setting that is written by its letter."""
    return next((s.name for s in schema().values() if s.alias and s.alias == setting), setting)


def block_kind(level: Level) -> ValueKind | None:
    """The kind whose arguments a block gives: ``generator { hidden=64 }``."""
    setting = schema().get(full_name(level.block))
    return setting.block if setting else None


def settings_at(level: Level) -> list[str]:
    """The settings that may be written at a level."""
    every = schema().values()
    return [setting.name for setting in every if setting.in_stages or level.block != STAGE]


def values_at(place: CursorPlace) -> AllowedValues | None:
    """The values at a place; None where no setting is known."""
    return reduce(_inside, place.brackets, _level_values(place.level))


def slot_at(place: CursorPlace) -> ArgumentSlot | None:
    """The kind that the innermost bracket gives arguments to, and which of them is next."""
    if not place.brackets:
        return None
    *outer, innermost = place.brackets
    return _slot(reduce(_inside, outer, _level_values(place.level)), innermost)


def _level_values(level: Level) -> AllowedValues | None:
    if kind := block_kind(level):
        known = kind.arguments.get(full_name(level.setting)) or kind.arguments.get(level.setting)
        return known.values if known else None
    setting = schema().get(full_name(level.setting))
    return setting.values if setting else None


def _inside(values: AllowedValues | None, bracket: Bracket) -> AllowedValues | None:
    """The values within a bracket of a value."""
    if values is None or bracket.sign == "{":
        return values
    if bracket.sign == "[":
        return values.item
    slot = _slot(values, bracket)
    argument = slot.kind.arguments.get(slot.name) if slot else None
    return argument.values if argument else None


def _slot(values: AllowedValues | None, bracket: Bracket) -> ArgumentSlot | None:
    if values is None or bracket.sign != "(":
        return None
    named_with = values.kinds.get(f"{bracket.kind}({bracket.first})")
    kind = named_with or values.kinds.get(bracket.kind)
    if kind is None:
        return None
    number = bracket.unnamed - bool(named_with)
    following = "" if number < 0 else next(iter(kind.positional[number:]), "")
    return ArgumentSlot(kind, bracket.argument or following)
