"""Suggestions at a place, read off the settings: names, kinds, values, specs and files."""

import os
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from bertc.editor.pages import (
    EXTENDS_MEANING,
    STAGE_MEANING,
    argument_page,
    kind_page,
    setting_page,
    spec_page,
)
from bertc.editor.place import CursorPlace
from bertc.editor.slots import (
    ArgumentSlot,
    block_node,
    full_name,
    kinds_by_name,
    names_at,
    naming_words,
    slot_at,
    value_shape,
)
from bertc.ir.program.settings import Settings, aliases
from bertc.resources import shipped_specs
from bertc.storage.paths import is_folder, user_path
from bertc.syntax.files import SUFFIX, shipped_place
from bertc.syntax.lowering.lower import BLOCKS
from bertc.syntax.read.shapes import (
    ChoiceShape,
    EitherShape,
    ListShape,
    Shape,
    TruthShape,
    setting_shape,
)
from bertc.syntax.write.reference import argument_facts, setting_facts

MOST_COMPLETIONS = 500
"""Files of a folder that are offered."""

IN_STRINGS = ("base", "argument", "value")
"""Places whose strings may name files; at others they are names of stages."""

Sort = Literal["setting", "argument", "block", "kind", "value", "spec", "file"]


class Suggestion(NamedTuple):
    """Something that may be written: its text, what is inserted, a line and a page about it."""

    text: str
    insert: str
    sort: Sort
    detail: str = ""
    page: str = ""


def suggestions(place: CursorPlace, folder: Path) -> list[Suggestion]:
    """List all that may be written at a place of a spec in ``folder``.

    Files named in strings are looked for in the working folder, as ``check`` does, and those
    after ``extends`` in ``folder``.
    """
    if place.in_string:
        return list(_files(place, folder)) if place.expected in IN_STRINGS else []
    match place.expected:
        case "item":
            return list(_items(place))
        case "base":
            return list(_shipped())
        case "argument":
            slot = slot_at(place)
            named_with = [Suggestion(word, word, "value") for word in naming_words(place)]
            known = [*_arguments(place, slot), *_values(value_shape(place))] if slot else []
            return [*named_with, *known]
        case "value":
            return [*_default(place), *_values(value_shape(place))]
        case "nothing":
            return []


def _items(place: CursorPlace) -> Iterator[Suggestion]:
    given, equal = {full_name(each) for each in place.level.given}, _equal(place)
    kind, node = block_node(place.level)
    if node:
        yield from _arguments(place, ArgumentSlot(kind, node))
        return
    for name in names_at(place.level):
        if name not in given or name == place.word:
            detail = setting_facts(name).meaning
            yield Suggestion(name, name + equal, "setting", detail, setting_page(name))
    for letter, name in aliases().items():
        if letter == place.typed and name in names_at(place.level):
            detail = setting_facts(name).meaning
            yield Suggestion(letter, letter + equal, "setting", detail, setting_page(name))
    if not place.level.block:
        yield from (Suggestion(name, f"{name} ", "block", STAGE_MEANING) for name in BLOCKS)
        if not given:
            yield Suggestion("extends", "extends ", "block", EXTENDS_MEANING)


def _arguments(place: CursorPlace, slot: ArgumentSlot) -> Iterator[Suggestion]:
    """The arguments of a kind that are not given yet."""
    given = [*(place.brackets[-1].given if place.brackets else place.level.given)]
    given += slot.unnamed
    equal = ("" if place.named else "=") if place.brackets else _equal(place)
    for name, default in argument_facts(slot.node):
        if name not in given or name == place.word:
            detail = f"default {default}" if default else "has to be written"
            page = argument_page(slot.kind, slot.node, name)
            yield Suggestion(name, name + equal, "argument", detail, page)


def _default(place: CursorPlace) -> Iterator[Suggestion]:
    """The default of a number or text, which has no words to choose from."""
    setting = full_name(place.level.setting)
    if place.brackets or block_node(place.level)[1] or setting not in Settings.model_fields:
        return
    facts = setting_facts(setting)
    if facts.default and not list(_values(setting_shape(setting))):
        yield Suggestion(facts.default, facts.default, "value", f"the default, of {facts.source}")


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


def _files(place: CursorPlace, folder: Path) -> Iterator[Suggestion]:
    """The files and folders whose names go on from what is typed."""
    typed, base = place.typed, place.expected == "base"
    head = typed[: typed.rfind("/") + 1]
    if "\0" in typed:
        return
    inside = (folder / head) if base else user_path(head or ".")
    for entry in _entries(inside):
        name = f"{entry.name}/" if is_folder(entry.path) else entry.name
        hidden = name.startswith(".") and not typed[len(head) :].startswith(".")
        if not hidden and (not base or name.endswith(("/", SUFFIX))):
            yield Suggestion(head + name, head + name, "file")


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as found:
            return sorted(islice(found, MOST_COMPLETIONS), key=lambda entry: entry.name)
    except (OSError, ValueError):
        return []
