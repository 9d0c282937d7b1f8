"""Pages about words, as Markdown: meaning, what may be written, default and source."""

import re
from itertools import takewhile

from bertc.lab.editor.place import CursorPlace
from bertc.lab.editor.slots import STAGE, block_kind, full_name, settings_at, slot_at, values_at
from bertc.lab_api import ValueKind, schema, shipped_specs, spec_text

_FIRST_WORD = re.compile(r"\(\s*([\w-]+)")


STAGE_MEANING = "a part of the training, with settings of its own; stages follow each other"
EXTENDS_MEANING = (
    "begin with all settings of another spec: a shipped one, or a file beside or below this"
)


def page_at(place: CursorPlace) -> str:
    """The page of the word at a place; empty if it means nothing."""
    if place.expected == "base":
        return spec_page(place.word) if place.word in shipped_specs() else ""
    if place.expected == "argument" and place.named:
        slot = slot_at(place)
        return argument_page(slot.kind, place.word) if slot else ""
    if place.expected == "item":
        return _item_page(place)
    values = values_at(place) if place.expected != "nothing" else None
    first = _FIRST_WORD.match(place.text, place.end)
    named_with = f"{place.word}({first[1]})" if first else ""
    kinds = values.kinds if values else {}
    kind = kinds.get(place.word) or kinds.get(named_with)
    return kind_page(kind) if kind else ""


def _item_page(place: CursorPlace) -> str:
    name = full_name(place.word)
    if kind := block_kind(place.level):
        return argument_page(kind, name) or argument_page(kind, place.word)
    if place.named and name in settings_at(place.level):
        return setting_page(name)
    if place.word == STAGE:
        return f"**`{STAGE}`**: {STAGE_MEANING}"
    if place.word == "extends":
        return f"**`extends`**: {EXTENDS_MEANING}"
    as_block = name in schema() and schema()[name].block
    return setting_page(name) if as_block else ""


def setting_page(name: str) -> str:
    """The page of a setting."""
    setting = schema()[name]
    alias = f" or `{setting.alias}`" if setting.alias else ""
    usual = f"`{setting.default}`, of {setting.source}" if setting.default else setting.source
    about = f"**`{name}`**{alias}: {setting.meaning}"
    return "\n\n".join(filter(None, [about, setting.values.text, f"Default: {usual}"]))


def kind_page(kind: ValueKind) -> str:
    """The page of a kind: how it is written, and what it does."""
    texts = [f"{a.name}={a.default or '...'}" for a in kind.arguments.values()]
    begin = kind.name[:-1].split("(", 1) if kind.name.endswith(")") else [kind.name]
    written = f"{begin[0]}({', '.join([*begin[1:], *texts])})" if texts else kind.name
    return f"```bertc\n{written}\n```\n\n{kind.meaning}"


def argument_page(kind: ValueKind, name: str) -> str:
    """The page of an argument of a kind; empty if it has none of this name."""
    argument = kind.arguments.get(name)
    if argument is None:
        return ""
    usual = f"Default: `{argument.default}`" if argument.default else f"`{kind.name}` needs it."
    about = f"**`{name}`** of `{kind.name}`: {argument.values.text}"
    return f"{about}\n\n{usual}\n\n{kind.meaning}"


def spec_page(name: str) -> str:
    """The page of a shipped spec: its first comment, shown as it is."""
    comment = takewhile(lambda line: line.startswith("#"), spec_text(name).splitlines())
    lines = "\n".join(line.strip("# ") for line in comment)
    return f"**`{name}`**\n\n```text\n{lines}\n```"
