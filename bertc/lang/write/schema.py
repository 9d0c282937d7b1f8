"""The words of the language as values: settings and kinds, what each may be, and its default.

The tables of docs/language.md and what an editor shows are made of these.
"""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import NamedTuple

from bertc.ir.base import Node
from bertc.ir.program.settings import STAGE_SETTINGS, Settings, declared
from bertc.lang.read import shapes
from bertc.lang.write.show import show_value


@dataclass(frozen=True)
class AllowedValues:
    """The values of a setting or an argument."""

    _shape: shapes.Shape = field(repr=False)

    @property
    def text(self) -> str:
        """All of them in words, as Markdown on one line: ``whole number ≥ 1``."""
        shape, forms = self._shape, list[str]()
        for name, limits in (("whole number", shape.whole), ("number", shape.number)):
            if limits:
                forms.append(f"{name} {', '.join(limits.named(*'≥>≤<'))}".rstrip())
        if shape.text:
            forms.append("text")
        if names := (*shape.words, *shape.kinds):
            forms.append(" ".join(f"`{name}`" for name in names))
        if shape.item:
            several = "sum of" if shape.term else f"list of {shape.length or ''}".rstrip()
            forms.append(f"{several} {AllowedValues(shape.item).text}")
        return " or ".join(forms)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words among them that are no kinds, those in a list included."""
        return tuple(self._shape.single.words)

    @cached_property
    def kinds(self) -> Mapping[str, "ValueKind"]:
        """The kinds among them by name, those of shorthands included: ``span`` for an mlm."""
        kinds = self._shape.single.kinds
        short = (shapes.shorthand_kinds(node).items() for node in kinds.values())
        named = {**{name: node for inner in short for name, node in inner}, **kinds}
        return {name: ValueKind(name, node) for name, node in named.items()}

    @property
    def item(self) -> "AllowedValues | None":
        """The values in a list; None if there is no list among them."""
        shape = self._shape
        return AllowedValues(shape.item) if shape.item and not shape.term else None


class Argument(NamedTuple):
    """An argument of a kind; ``default`` is "" if it has to be written."""

    name: str
    values: AllowedValues
    default: str


@dataclass(frozen=True)
class ValueKind:
    """A kind of value, such as ``adamw`` of an optimizer."""

    name: str
    _node: type[Node] = field(repr=False)

    @property
    def meaning(self) -> str:
        """Its description, as Markdown."""
        return inspect.cleandoc(self._node.__doc__ or "").replace("``", "`")

    @cached_property
    def arguments(self) -> Mapping[str, Argument]:
        """Its arguments by name, those that may be written without a name first."""
        allowed, needed = shapes.arguments(self._node), shapes.required(self._node)
        return {
            name: Argument(
                name,
                AllowedValues(allowed[name]),
                ""
                if name in needed
                else show_value(self._node.model_fields[name].default, allowed[name]),
            )
            for name in dict.fromkeys((*self._node.positional, *allowed))
        }

    @property
    def positional(self) -> tuple[str, ...]:
        """The arguments that may be written without a name, in order."""
        return self._node.positional

    @property
    def unit(self) -> str:
        """The word after a number that writes it, as in ``1M tokens``; "" if there is none."""
        return self._node.number_unit


class Setting(NamedTuple):
    """A setting: its letter, meaning and values, its default, and where that is from.

    ``alias`` is "" without a letter, ``default`` where it is derived by the rule in ``source``.
    ``in_stages``: a stage may change it. ``block``: the kind whose arguments a block of its name
    gives, as ``generator { hidden=64 }`` does.
    """

    name: str
    alias: str
    meaning: str
    values: AllowedValues
    default: str
    source: str
    in_stages: bool
    block: ValueKind | None


@cache
def schema() -> Mapping[str, Setting]:
    """Every setting of the language by name, with its kinds and their arguments."""
    return {name: _setting(name) for name in Settings.model_fields}


def _setting(name: str) -> Setting:
    info, shape = Settings.model_fields[name], shapes.setting_shape(name)
    facts, (kind, node) = declared(name), shapes.block_kind(name)
    return Setting(
        name=name,
        alias=facts["alias"],
        meaning=info.description or "",
        values=AllowedValues(shape),
        default="" if info.is_required() else show_value(info.default, shape),
        source=facts["source"],
        in_stages=name in STAGE_SETTINGS,
        block=ValueKind(kind, node) if node else None,
    )
