"""Suggestions at a place, read off the settings: names, kinds, values and specs."""

from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple

from bertc.lab.editor import hover, slots
from bertc.lab.editor.place import CursorPlace
from bertc.lab_api import AllowedValues, schema, shipped_specs, spec_text

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
            return list(_list_shipped())
        case "argument":
            slot = slots.slot_at(place)
            return [*_arguments(place, slot), *_values(slots.values_at(place))] if slot else []
        case "value":
            return list(_values(slots.values_at(place)))
        case "nothing":
            return []


def _items(place: CursorPlace) -> Iterator[Suggestion]:
    written, equal = {slots.full_name(name) for name in place.level.given}, _equal(place)
    if kind := slots.block_kind(place.level):
        yield from _arguments(place, slots.ArgumentSlot(kind))
        return
    for name in slots.settings_at(place.level):
        if name not in written or name == place.word:
            meaning = schema()[name].meaning
            yield Suggestion(name, name + equal, "setting", meaning, hover.setting_page(name))
    if not place.level.block:
        yield Suggestion(slots.STAGE, f"{slots.STAGE} ", "block", hover.STAGE_MEANING)
        if not written:
            yield Suggestion("extends", "extends ", "block", hover.EXTENDS_MEANING)


def _arguments(place: CursorPlace, slot: slots.ArgumentSlot) -> Iterator[Suggestion]:
    """The arguments of a kind that are not given yet."""
    written = place.brackets[-1].given if place.brackets else place.level.given
    equal = ("" if place.named else "=") if place.brackets else _equal(place)
    for name, argument in slot.kind.arguments.items():
        if name not in written or name == place.word:
            detail = f"default {argument.default}" if argument.default else "has to be written"
            page = hover.argument_page(slot.kind, name)
            yield Suggestion(name, name + equal, "argument", detail, page)


@cache
def _list_shipped() -> tuple[Suggestion, ...]:
    """The shipped specs, each with its first comment."""
    texts = ((name, spec_text(name)) for name in shipped_specs())
    return tuple(
        Suggestion(name, name, "spec", text.partition("\n")[0].strip("# "), hover.spec_page(name))
        for name, text in texts
    )


def _equal(place: CursorPlace) -> str:
    return "" if place.named else " = "


def _values(values: AllowedValues | None) -> Iterator[Suggestion]:
    """The words that a value may begin with."""
    if values is None:
        return
    for name, kind in values.kinds.items():
        if kind.unit:
            continue  # written as a number and this word
        needed = any(not argument.default for argument in kind.arguments.values())
        insert = f"{name}(" if needed and not name.endswith(")") else name
        yield Suggestion(
            name, insert, "kind", kind.meaning.partition("\n")[0], hover.kind_page(kind)
        )
    yield from (Suggestion(word, word, "value") for word in values.words)
