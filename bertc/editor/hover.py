"""The page of the word under the cursor, and the setting around it."""

import re

from bertc.diagnostics.render import escaped
from bertc.editor.pages import (
    EXTENDS_MEANING,
    STAGE_MEANING,
    argument_page,
    kind_page,
    setting_page,
    spec_page,
)
from bertc.editor.place import CursorPlace
from bertc.editor.reading import Reading
from bertc.editor.slots import (
    block_node,
    full_name,
    kinds_by_name,
    names_at,
    slot_at,
    value_shape,
)
from bertc.syntax.helps import written_settings
from bertc.syntax.lowering.lower import BLOCKS
from bertc.syntax.read.shapes import arguments, block_kind
from bertc.syntax.read.tree import Block, Setting

_FIRST_WORD = re.compile(r"\(\s*([\w-]+)")


def page_at(place: CursorPlace, reading: Reading) -> str:
    """The page of the word at a place; empty if it means nothing."""
    if place.expected == "base":
        return _base_page(reading)
    if place.in_string:
        return ""
    if place.expected == "argument" and place.named:
        slot = slot_at(place)
        known = slot is not None and place.word in arguments(slot.node)
        return argument_page(slot.kind, slot.node, place.word) if slot and known else ""
    if place.expected == "item":
        return _item_page(place, reading)
    kinds = kinds_by_name(value_shape(place)) if place.expected != "nothing" else {}
    first = _FIRST_WORD.match(place.text, place.end)
    named_with = f"{place.word}({first[1]})" if first else ""
    kind = next((each for each in (place.word, named_with) if each in kinds), "")
    return kind_page(kind, kinds[kind]) if kind else ""


def _item_page(place: CursorPlace, reading: Reading) -> str:
    kind, node = block_node(place.level)
    name = full_name(place.word)
    if node:
        known = next((each for each in (name, place.word) if each in arguments(node)), "")
        return argument_page(kind, node, known) if known else ""
    if place.named and name in names_at(place.level):
        return "\n\n".join(filter(None, (setting_page(name), _in_base(name, reading))))
    if place.word in BLOCKS:
        return f"**`{place.word}`**: {STAGE_MEANING}"
    if place.word == "extends":
        return f"**`extends`**: {EXTENDS_MEANING}"
    as_block = place.word != "" and block_kind(name)[1] is not None
    return setting_page(name) if as_block else ""


def _in_base(name: str, reading: Reading) -> str:
    """The setting as the nearest base has it, if any does."""
    for base, tree in reading.bases:
        for setting in written_settings(tree):
            if setting.name.text == name:
                said = escaped(setting.span.text).replace("`", "'")
                return f"In `{escaped(base.name)}`, line {setting.span.line}: `{said}`"
    return ""


def _base_page(reading: Reading) -> str:
    base = next(iter(reading.bases), None)
    return spec_page(base[0].name, base[1].source.text) if base else ""


def setting_around(reading: Reading, cursor: int) -> Setting | None:
    """The setting whose name is under the cursor, if the tree has it."""
    for item in reading.tree.items:
        for each in item.items if isinstance(item, Block) else (item,):
            name = each.name.span if isinstance(each, Setting) else None
            if name and isinstance(each, Setting) and name.start <= cursor <= name.end:
                return each
    return None
