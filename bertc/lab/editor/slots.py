"""Names and values that settings allow at a place: known names, kinds, the shape of a value."""

from functools import reduce
from typing import NamedTuple

from bertc.ir.base import Node
from bertc.ir.program.settings import STAGE_SETTINGS, Settings, aliases
from bertc.lab.editor.place import Bracket, CursorPlace, Level
from bertc.lang.lowering.lower import BLOCKS
from bertc.lang.read.shapes import (
    EitherShape,
    KindShape,
    ListShape,
    Shape,
    SumShape,
    TextShape,
    arguments,
    block_kind,
    setting_shape,
)


class ArgumentSlot(NamedTuple):
    """An argument of a kind; ``name`` is empty where there is no further one without a name."""

    kind: str
    node: type[Node]
    name: str = ""


def full_name(setting: str) -> str:
    """The name of a setting that is written by its letter."""
    return aliases().get(setting, setting)


def block_node(level: Level) -> tuple[str, type[Node] | None]:
    """The kind whose arguments a block gives: ``generator { hidden=64 }``."""
    return block_kind(full_name(level.block)) if level.block else ("", None)


def names_at(level: Level) -> tuple[str, ...]:
    """The names that may stand before ``=`` at a level."""
    _, node = block_node(level)
    if node:
        return tuple(arguments(node))
    return STAGE_SETTINGS if level.block in BLOCKS else tuple(Settings.model_fields)


def value_shape(place: CursorPlace) -> Shape | None:
    """The shape of the value at a place; None where no setting is known."""
    return reduce(_inside, place.brackets, _level_shape(place.level))


def slot_at(place: CursorPlace) -> ArgumentSlot | None:
    """The kind that the innermost bracket gives arguments to, and which of them is next."""
    if not place.brackets:
        return None
    *outer, innermost = place.brackets
    return _slot(reduce(_inside, outer, _level_shape(place.level)), innermost)


def kinds_by_name(shape: Shape | None) -> dict[str, type[Node]]:
    """The classes that a value may name, those of shorthands included: ``span`` for an mlm."""
    match shape:
        case KindShape():
            named = dict(shape.options)
            for node in shape.options.values():
                inner = arguments(node).get(node.shorthand)
                if isinstance(inner, KindShape):
                    named = {**inner.options, **named}
            return {**shape.options, **named}
        case SumShape(inner=item) | ListShape(item=item):
            return kinds_by_name(item)
        case EitherShape():
            return {k: v for option in shape.options for k, v in kinds_by_name(option).items()}
        case _:
            return {}


def _level_shape(level: Level) -> Shape | None:
    _, node = block_node(level)
    setting = full_name(level.setting)
    if node:
        shapes = arguments(node)
        return shapes.get(setting) or shapes.get(level.setting)
    return setting_shape(setting) if setting in Settings.model_fields else None


def _inside(shape: Shape | None, bracket: Bracket) -> Shape | None:
    """The shape of a value within a bracket of a value."""
    if bracket.sign == "{":
        return shape
    if bracket.sign == "[":
        lists = shape.options if isinstance(shape, EitherShape) else (shape,)
        return next((option.item for option in lists if isinstance(option, ListShape)), None)
    slot = _slot(shape, bracket)
    if slot is None:
        return None
    return arguments(slot.node).get(slot.name) or (TextShape() if slot.node.others else None)


def _slot(shape: Shape | None, bracket: Bracket) -> ArgumentSlot | None:
    if bracket.sign != "(":
        return None
    kinds, number = kinds_by_name(shape), bracket.unnamed
    kind = f"{bracket.kind}({bracket.first})"
    if kind in kinds:  # named with the first argument
        number -= 1
    else:
        kind = bracket.kind
    node = kinds.get(kind)
    if node is None:
        return None
    following = "" if number < 0 else next(iter(node.positional[number:]), "")
    return ArgumentSlot(kind, node, bracket.argument or following)
