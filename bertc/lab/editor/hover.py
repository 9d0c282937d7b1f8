"""Pages about words, as Markdown: meaning, what may be written, default and source."""

import inspect
import re

from bertc.base.diagnostics.render import escaped
from bertc.base.resources import shipped_specs
from bertc.ir.base import Node, call_text
from bertc.lab.editor.place import CursorPlace
from bertc.lab.editor.slots import (
    block_node,
    full_name,
    kinds_by_name,
    names_at,
    slot_at,
    value_shape,
)
from bertc.lang.files import shipped_place
from bertc.lang.lowering.lower import BLOCKS
from bertc.lang.read.shapes import arguments, block_kind
from bertc.lang.write.reference import allowed, argument_facts, setting_facts

_FIRST_WORD = re.compile(r"\(\s*([\w-]+)")


STAGE_MEANING = "a part of the training, with settings of its own; stages follow each other"
EXTENDS_MEANING = (
    "begin with all settings of another spec: a shipped one, or a file beside or below this"
)


def page_at(place: CursorPlace) -> str:
    """The page of the word at a place; empty if it means nothing."""
    if place.expected == "base":
        known = place.word in shipped_specs()
        return spec_page(place.word, shipped_place(place.word).read()) if known else ""
    if place.expected == "argument" and place.named:
        slot = slot_at(place)
        known = slot is not None and place.word in arguments(slot.node)
        return argument_page(slot.kind, slot.node, place.word) if slot and known else ""
    if place.expected == "item":
        return _item_page(place)
    kinds = kinds_by_name(value_shape(place)) if place.expected != "nothing" else {}
    first = _FIRST_WORD.match(place.text, place.end)
    named_with = f"{place.word}({first[1]})" if first else ""
    kind = next((name for name in (place.word, named_with) if name in kinds), "")
    return kind_page(kind, kinds[kind]) if kind else ""


def _item_page(place: CursorPlace) -> str:
    kind, node = block_node(place.level)
    name = full_name(place.word)
    if node:
        known = next(
            (spelling for spelling in (name, place.word) if spelling in arguments(node)), ""
        )
        return argument_page(kind, node, known) if known else ""
    if place.named and name in names_at(place.level):
        return setting_page(name)
    if place.word in BLOCKS:
        return f"**`{place.word}`**: {STAGE_MEANING}"
    if place.word == "extends":
        return f"**`extends`**: {EXTENDS_MEANING}"
    as_block = place.word != "" and block_kind(name)[1] is not None
    return setting_page(name) if as_block else ""


def setting_page(name: str) -> str:
    """The page of a setting."""
    facts = setting_facts(name)
    alias = f" or `{facts.alias}`" if facts.alias else ""
    usual = f"`{facts.default}`, of {facts.source}" if facts.default else facts.source
    lines = [f"**`{name}`**{alias}: {facts.meaning}", facts.values, f"Default: {usual}"]
    return "\n\n".join(filter(None, lines))


def kind_page(kind: str, node: type[Node]) -> str:
    """The page of a kind: how it is written, and what it does."""
    texts = [
        f"{name}={default}" if default else f"{name}=..." for name, default in argument_facts(node)
    ]
    written = call_text(kind, *texts)
    return f"```bertc\n{written}\n```\n\n{_about(node)}"


def argument_page(kind: str, node: type[Node], name: str) -> str:
    """The page of an argument of a kind."""
    shape, default = arguments(node)[name], dict(argument_facts(node))[name]
    usual = f"Default: `{default}`" if default else f"`{kind}` needs it."
    return "\n\n".join((f"**`{name}`** of `{kind}`: {allowed(shape)}", usual, _about(node)))


def spec_page(name: str, text: str) -> str:
    """The page of a spec: its first comment, shown as it is."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(escaped(line.strip("# ")))
    comment = "\n".join(lines).replace("```", "'''")
    return f"**`{escaped(name)}`**" + (f"\n\n```text\n{comment}\n```" if comment else "")


def _about(node: type[Node]) -> str:
    """The description of a class, without what it says to programmers alone."""
    return inspect.cleandoc(node.__doc__ or "").replace("``", "`")
