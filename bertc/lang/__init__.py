"""Specs: text to tree to program, and back to canonical text."""

from bertc.syntax.files import SpecLocation
from bertc.syntax.load import load, lower
from bertc.syntax.read.parse import parse
from bertc.syntax.read.tree import Tree
from bertc.syntax.write.format import format_text
from bertc.syntax.write.show import show, show_value

__all__ = [
    "SpecLocation",
    "Tree",
    "format_text",
    "load",
    "lower",
    "parse",
    "show",
    "show_value",
]
