"""What may be written at a place, read off the settings: names, kinds, values, specs and files."""

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from bertc.editor.pages import BLOCK, EXTENDS, argument_page, kind_page, setting_page
from bertc.editor.place import Place
from bertc.editor.slots import (
    Slot,
    block_node,
    canonical,
    kinds_by_name,
    names_at,
    slot_at,
    value_shape,
)
from bertc.ir.program.settings import aliases
from bertc.resources import shipped_specs
from bertc.storage.paths import is_folder, user_path
from bertc.syntax.files import SUFFIX
from bertc.syntax.lowering.lower import BLOCKS
from bertc.syntax.read.shapes import (
    ChoiceShape,
    EitherShape,
    ListShape,
    Shape,
    TruthShape,
)
from bertc.syntax.write.reference import argument_facts, setting_facts

MOST_FILES = 500
"""Files of a folder that are offered."""

Sort = Literal["setting", "argument", "block", "kind", "value", "spec", "file"]


class Choice(NamedTuple):
    """Something that may be written: its text, what is inserted, a line and a page about it."""

    text: str
    insert: str
    sort: Sort
    detail: str = ""
    page: str = ""


def choices(place: Place, folder: Path) -> list[Choice]:
    """All that may be written at a place; ``folder`` is the one that the spec stands in.

    Files named in strings are looked for in the working folder, as ``check`` does, and those
    after ``extends`` in ``folder``.
    """
    if place.in_string:
        return list(_files(place, folder)) if _names_a_file(place) else []
    match place.expected:
        case "item":
            return list(_items(place))
        case "base":
            return [Choice(name, name, "spec") for name in shipped_specs()]
        case "argument":
            slot = slot_at(place)
            return [*_arguments(place, slot), *_values(value_shape(place))] if slot else []
        case "value":
            return list(_values(value_shape(place)))
        case "nothing":
            return []


def _items(place: Place) -> Iterator[Choice]:
    given, equal = {canonical(each) for each in place.level.given}, _equal(place)
    kind, node = block_node(place.level)
    if node:
        yield from _arguments(place, Slot(kind, node, ""))
        return
    for name in names_at(place.level):
        if name not in given or name == place.word:
            detail = setting_facts(name).meaning
            yield Choice(name, name + equal, "setting", detail, setting_page(name))
    for letter, name in aliases().items():
        if letter == place.typed and name in names_at(place.level):
            detail = setting_facts(name).meaning
            yield Choice(letter, letter + equal, "setting", detail, setting_page(name))
    if not place.level.block:
        yield from (Choice(name, f"{name} ", "block", BLOCK) for name in BLOCKS)
        if not given:
            yield Choice("extends", "extends ", "block", EXTENDS)


def _arguments(place: Place, slot: Slot) -> Iterator[Choice]:
    """The arguments of a kind that are not given yet."""
    given = place.brackets[-1].given if place.brackets else place.level.given
    equal = ("" if place.named else "=") if place.brackets else _equal(place)
    for name, default in argument_facts(slot.node):
        if name not in given or name == place.word:
            detail = f"default {default}" if default else "has to be written"
            page = argument_page(slot.kind, slot.node, name)
            yield Choice(name, name + equal, "argument", detail, page)


def _equal(place: Place) -> str:
    return "" if place.named else " = "


def _values(shape: Shape | None) -> Iterator[Choice]:
    """The words that a value may begin with."""
    for kind, node in kinds_by_name(shape).items():
        page = kind_page(kind, node)
        needed = any(not default for _, default in argument_facts(node)) or node.others
        insert = f"{kind}(" if needed and not kind.endswith(")") else kind
        yield Choice(kind, insert, "kind", _first_line(node.__doc__), page)
    yield from (Choice(word, word, "value") for word in _words(shape))


def _words(shape: Shape | None) -> Iterable[str]:
    match shape:
        case TruthShape():
            return ("true", "false")
        case ChoiceShape():
            return shape.options
        case ListShape():
            return _words(shape.item)
        case EitherShape():
            return [word for option in shape.options for word in _words(option)]
        case _:
            return ()


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0].replace("``", "`")


def _names_a_file(place: Place) -> bool:
    if place.expected in ("base", "argument"):
        return True
    return place.expected == "value"


def _files(place: Place, folder: Path) -> Iterator[Choice]:
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
            yield Choice(head + name, head + name, "file")


def _entries(folder: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as found:
            return sorted(islice(found, MOST_FILES), key=lambda entry: entry.name)
    except (OSError, ValueError):
        return []
