"""Canonical text of typed values, which reads back as the same values."""

from collections.abc import Mapping
from typing import Any

from bertc.ir.base import Node
from bertc.ir.fixes import call_text
from bertc.ir.learning import Hours
from bertc.ir.program import Given, Program, Settings
from bertc.lang.read import shapes
from bertc.lang.read.numbers import show_hours, show_number

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def show(program: Program, *, origins: bool = False) -> str:
    """The text of a program, settings in canonical order; it ends with a new line.

    ``origins`` adds the origin of each value as a comment.
    """
    lines = []
    if program.base:
        name = program.base.name
        plain = name.replace("-", "_").isidentifier() and name.isascii()
        lines.append(f"extends {name if plain else quote(name)}")
    lines += _lines(program.settings, origins)
    for stage in program.stages:
        lines += ["", f"stage {quote(stage.name)} {{"]
        lines += [f"    {line}" for line in _lines(stage.settings, origins)]
        lines.append("}")
    return "\n".join(lines).strip("\n") + "\n"


def show_value(value: Any, shape: shapes.Shape | None = None, *, full: bool = False) -> str:
    """The text of a value; ``shape`` is only needed to tell words from quoted strings."""
    match shape:
        case None | shapes.WholeShape() | shapes.RealShape() | shapes.TruthShape():
            return _shapeless(value, full)
        case shapes.TextShape():
            return quote(value)
        case shapes.ChoiceShape():
            return str(value)
        case shapes.KindShape():
            return _node(value, full)
        case shapes.ListShape():
            return f"[{', '.join(show_value(item, shape.item, full=full) for item in value)}]"
        case shapes.SumShape():
            return " + ".join(_term(term, shape, full) for term in value)
        case shapes.EitherShape() if value == 1 and isinstance(value, float):
            return "100%"  # 1 is a number of steps
        case shapes.EitherShape(options=options) if isinstance(value, tuple):
            lists = (option for option in options if isinstance(option, shapes.ListShape))
            return show_value(value, next(lists, None), full=full)
        case shapes.EitherShape(options=options):
            choices = (option for option in options if isinstance(option, shapes.ChoiceShape))
            word = any(value in choice.options for choice in choices)
            return str(value) if word else _shapeless(value, full)


def quote(text: str) -> str:
    """The text as a string literal."""
    shown = (_ESCAPES.get(c) or (c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in text)
    return f'"{"".join(shown)}"'


def _lines(settings: Mapping[str, Given], origins: bool) -> list[str]:
    names = [name for name in Settings.model_fields if name in settings]
    lines = []
    for name in names:
        setting = settings[name]
        text = f"{name} = {show_value(setting.value, shapes.setting_shape(name))}"
        origin = setting.origin
        parts = (origin.kind, origin.source, str(origin.span or ""))
        lines.append(f"{text}  # {': '.join(filter(None, parts))}" if origins else text)
    return lines


def _shapeless(value: Any, full: bool) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return show_number(value)
        case Node() if "weight" in type(value).model_fields:
            (term,) = (name for name in type(value).model_fields if name != "weight")
            return _term(
                value, shapes.SumShape(type(value), term, shapes.arguments(type(value))[term]), full
            )
        case Hours(hours=hours):
            return show_hours(hours)
        case Node() if value.number_unit:
            return f"{show_number(getattr(value, value.bare_number[0]))} {value.number_unit}"
        case Node():
            return _node(value, full)
        case tuple() if value and isinstance(value[0], Node):
            return " + ".join(_shapeless(item, full) for item in value)
        case tuple():
            return f"[{', '.join(_shapeless(item, full) for item in value)}]"
        case str():
            return quote(value)
    raise TypeError(f"the language has no way to write a {type(value).__name__}")


def _term(term: Node, shape: shapes.SumShape, full: bool) -> str:
    weight = getattr(term, "weight")  # noqa: B009 - every node of a sum has it
    text = show_value(getattr(term, shape.field), shape.inner, full=full)
    return text if weight == 1 else f"{show_number(weight)}*{text}"


def _node(node: Node, full: bool) -> str:
    """The text of a kind, required arguments first and bare; defaults are left out."""
    cls = type(node)
    if "kind" not in cls.model_fields and (short := _without_kind(node)):
        return short
    kind = str(getattr(node, "kind", "") or shapes.kinds_of(cls)[0])
    needed = shapes.required(cls)
    texts = []
    for name, inner in sorted(shapes.arguments(cls).items(), key=lambda arg: arg[0] not in needed):
        value = getattr(node, name)
        if name in needed or full or value != cls.model_fields[name].default:
            text = show_value(value, inner, full=full)
            bare = name in needed and cls.positional[: len(needed)] == tuple(needed)
            texts.append(text if bare else f"{name}={text}")
    if cls.others:
        others = getattr(node, cls.others)
        texts += [f"{name}={_shapeless(value, full)}" for name, value in others]
    return call_text(kind, *texts)


def _without_kind(node: Node) -> str:
    """The text of a node without a kind, as a number or ratio; empty if impossible."""
    cls = type(node)
    values = [getattr(node, name) for name in cls.positional]
    if cls.bare_number:
        alike = set(cls.bare_number) == set(cls.model_fields) and len(set(values)) == 1
        return f"{show_number(values[0])} {cls.number_unit}".rstrip() if alike else ""
    return "/".join(map(show_number, values)) if len(values) == len(cls.model_fields) else ""
