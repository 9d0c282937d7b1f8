"""Settings and kinds in words: what may be written, its default, and where that comes from.

The tables of docs/language.md and what an editor shows are made of these.
"""

from typing import NamedTuple

from bertc.ir.base import Node
from bertc.ir.program.settings import Settings, default_source
from bertc.lang.read.shapes import (
    ChoiceShape,
    EitherShape,
    KindShape,
    Limits,
    ListShape,
    RealShape,
    Shape,
    SumShape,
    TextShape,
    TruthShape,
    WholeShape,
    arguments,
    required,
    setting_shape,
)
from bertc.lang.write.show import show_value


class SettingFacts(NamedTuple):
    """A setting in words; ``default`` is empty where it is derived, as ``source`` says."""

    name: str
    alias: str
    meaning: str
    values: str
    default: str
    source: str


def setting_facts(name: str) -> SettingFacts:
    """The row of a setting in the reference."""
    info = Settings.model_fields[name]
    extra, shape = info.json_schema_extra, setting_shape(name)
    return SettingFacts(
        name,
        str(extra["alias"]) if isinstance(extra, dict) else "",
        info.description or "",
        allowed(shape),
        "" if info.is_required() else show_value(info.default, shape),
        default_source(name),
    )


def allowed(shape: Shape) -> str:
    """The values of a shape, as Markdown on one line."""
    match shape:
        case WholeShape():
            return "whole number" + _limits(shape.bounds)
        case RealShape():
            return "number" + _limits(shape.bounds)
        case TruthShape():
            return "`true` `false`"
        case TextShape():
            return "text"
        case ChoiceShape() | KindShape():
            return " ".join(f"`{option}`" for option in shape.options)
        case ListShape():
            return f"list of {shape.length or ''} {allowed(shape.item)}".replace("  ", " ")
        case SumShape():
            return "sum of " + allowed(shape.inner)
        case EitherShape():
            return " or ".join(map(allowed, shape.options))


def _limits(bounds: Limits) -> str:
    signs = (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<"))
    words = [
        f"{sign} {getattr(bounds, name):,}"
        for name, sign in signs
        if getattr(bounds, name) is not None
    ]
    return f" {', '.join(words)}" if words else ""


def argument_facts(node: type[Node]) -> list[tuple[str, str]]:
    """The arguments of a kind with their defaults, those that may stand without a name first.

    The default of one that has to be written is empty.
    """
    shapes = arguments(node)
    names = [*node.positional, *(name for name in shapes if name not in node.positional)]
    return [
        (
            name,
            ""
            if name in required(node)
            else show_value(node.model_fields[name].default, shapes[name]),
        )
        for name in names
    ]
