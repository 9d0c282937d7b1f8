"""Suggestions at a place, read off the settings: names, kinds, values and specs."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Literal, NamedTuple

from bertc.base.resources import shipped_specs
from bertc.lab.editor.hover import (
    EXTENDS_MEANING,
    STAGE_MEANING,
    argument_page,
    kind_page,
    setting_page,
    spec_page,
)
from bertc.lab.editor.place import CursorPlace
from bertc.lab.editor.slots import (
    ArgumentSlot,
    block_node,
    full_name,
    kinds_by_name,
    names_at,
    slot_at,
    value_shape,
)
from bertc.lang.files import shipped_place
from bertc.lang.lowering.lower import BLOCKS
from bertc.lang.read.shapes import ChoiceShape, EitherShape, ListShape, Shape, TruthShape
from bertc.lang.write.reference import argument_facts, setting_facts

Sort = Literal["setting", "argument", "block", "kind", "value", "spec"]


class Suggestion(NamedTuple):
    """Something that may be written: its text, what is inserted, a line and a page about it."""

    text: str
    insert: str
    sort: Sort
    detail: str = ""
    page: str = ""


def suggestions(place: CursorPlace) -> list[Suggestion]:
    """List all that may be written at a place of a spec."""
    match place.expected:
        case "item":
            return list(_items(place))
        case "base":
            return list(_shipped())
        case "argument":
            slot = slot_at(place)
            return [*_arguments(place, slot), *_values(value_shape(place))] if slot else []
        case "value":
            return list(_values(value_shape(place)))
        case "nothing":
            return []


def _items(place: CursorPlace) -> Iterator[Suggestion]:
    written, equal = {full_name(name) for name in place.level.given}, _equal(place)
    kind, node = block_node(place.level)
    if node:
        yield from _arguments(place, ArgumentSlot(kind, node))
        return
    for name in names_at(place.level):
        if name not in written or name == place.word:
            detail = setting_facts(name).meaning
            yield Suggestion(name, name + equal, "setting", detail, setting_page(name))
    if not place.level.block:
        yield from (Suggestion(name, f"{name} ", "block", STAGE_MEANING) for name in BLOCKS)
        if not written:
            yield Suggestion("extends", "extends ", "block", EXTENDS_MEANING)


def _arguments(place: CursorPlace, slot: ArgumentSlot) -> Iterator[Suggestion]:
    """The arguments of a kind that are not given yet."""
    written = place.brackets[-1].given if place.brackets else place.level.given
    equal = ("" if place.named else "=") if place.brackets else _equal(place)
    for name, default in argument_facts(slot.node):
        if name not in written or name == place.word:
            detail = f"default {default}" if default else "has to be written"
            page = argument_page(slot.kind, slot.node, name)
            yield Suggestion(name, name + equal, "argument", detail, page)


@cache
def _shipped() -> tuple[Suggestion, ...]:
    """The shipped specs, each with its first comment."""
    texts = ((name, shipped_place(name).read()) for name in shipped_specs())
    return tuple(
        Suggestion(name, name, "spec", text.partition("\n")[0].strip("# "), spec_page(name, text))
        for name, text in texts
    )


def _equal(place: CursorPlace) -> str:
    return "" if place.named else " = "


def _values(shape: Shape | None) -> Iterator[Suggestion]:
    """The words that a value may begin with."""
    for kind, node in kinds_by_name(shape).items():
        if node.number_unit:
            continue  # written as a number and this word
        page = kind_page(kind, node)
        needed = any(not default for _, default in argument_facts(node)) or node.others
        insert = f"{kind}(" if needed and not kind.endswith(")") else kind
        yield Suggestion(kind, insert, "kind", _first_line(node.__doc__), page)
    yield from (Suggestion(word, word, "value") for word in plain_words(shape))


def plain_words(shape: Shape | None) -> Iterable[str]:
    """The words of a shape that are no kinds."""
    match shape:
        case TruthShape():
            return ("true", "false")
        case ChoiceShape():
            return shape.options
        case ListShape():
            return plain_words(shape.item)
        case EitherShape():
            return [word for option in shape.options for word in plain_words(option)]
        case _:
            return ()


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0].replace("``", "`")
