"""Canonical text of typed values, which reads back as the same values."""

from collections.abc import Callable
from typing import Any

from bertc.ir.base import Node
from bertc.ir.fixes import call_text
from bertc.ir.learning import Hours
from bertc.ir.program import Given, Program, Settings
from bertc.lang.read import shapes
from bertc.lang.read.numbers import show_hours, show_number

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def without_origin(name: str, setting: Given, indent: str = "") -> list[str]:
    """The line of a setting."""
    return [f"{indent}{name} = {show_value(setting.value, shapes.setting_shape(name))}"]


def show(program: Program, write: Callable[[str, Given, str], list[str]] = without_origin) -> str:
    """The text of a program, settings in canonical order; it ends with a new line.

    ``write`` makes the lines of a setting, from its name and an indent too.
    """
    lines = list[str]()
    if program.base:
        name = program.base.name
        plain = name.replace("-", "_").isidentifier() and name.isascii()
        lines.append(f"extends {name if plain else quote(name)}")
    for stage in (None, *program.stages):
        settings, indent = (stage or program).settings, "    " if stage else ""
        lines += ["", f"stage {quote(stage.name)} {{"] if stage else []
        for name in Settings.model_fields:
            lines += write(name, settings[name], indent) if name in settings else []
        lines += ["}"] if stage else []
    return "\n".join(lines).strip("\n") + "\n"


def show_value(value: Any, shape: shapes.Shape | None = None, *, full: bool = False) -> str:
    """The text of a value; ``shape`` is only needed to tell words from quoted strings."""
    match value:
        case bool():
            return "true" if value else "false"
        case float() if value == 1 and shape and shape.whole:
            return "100%"  # 1 is a number of steps
        case int() | float():
            return show_number(value)
        case str():
            return value if shape and value in shape.single.words else quote(value)
        case Node():
            return _node(value, full)
        case tuple():
            texts = [show_value(item, shape, full=full) for item in value]
            summed = value and isinstance(value[0], Node) and shapes.summed_field(type(value[0]))
            return " + ".join(texts) if summed else f"[{', '.join(texts)}]"
    raise TypeError(f"the language has no way to write a {type(value).__name__}")


def quote(text: str) -> str:
    """The text as a string literal."""
    shown = (_ESCAPES.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in text)
    return f'"{"".join(shown)}"'


def _node(node: Node, full: bool) -> str:
    """The text of a kind, required arguments first and bare; defaults are left out."""
    cls, known = type(node), shapes.arguments(type(node))
    if field := shapes.summed_field(cls):
        weight = getattr(node, "weight")  # noqa: B009 - every summand has it
        text = show_value(getattr(node, field), known[field], full=full)
        return text if weight == 1 else f"{show_number(weight)}*{text}"
    if "kind" not in cls.model_fields and (short := _without_kind(node)):
        return short
    kind = str(getattr(node, "kind", "") or shapes.kinds_of(cls)[0])
    needed = shapes.required(cls)
    texts = []
    for name in sorted(known, key=lambda name: name not in needed):
        value = getattr(node, name)
        if name in needed or full or value != cls.model_fields[name].default:
            text = show_value(value, known[name], full=full)
            bare = name in needed and cls.positional[: len(needed)] == tuple(needed)
            texts.append(text if bare else f"{name}={text}")
    if cls.others:
        texts += [f"{name}={show_value(value)}" for name, value in getattr(node, cls.others)]
    return call_text(kind, *texts)


def _without_kind(node: Node) -> str:
    """The text of a node without a kind, as a number or ratio; empty if impossible."""
    if isinstance(node, Hours):
        return show_hours(node.hours)
    cls = type(node)
    numbers = [getattr(node, name) for name in cls.bare_number or cls.positional]
    if len(numbers) < len(cls.model_fields) or (cls.bare_number and len(set(numbers)) > 1):
        return ""
    text = "/".join(map(show_number, numbers[:1] if cls.bare_number else numbers))
    return f"{text} {cls.number_unit}".rstrip()
