"""Specs: text to tree to program, and back to canonical text."""

from bertc.lang.files import SpecLocation
from bertc.lang.load import Written, load, read_spec
from bertc.lang.read.parse import parse
from bertc.lang.read.shapes import setting_shape
from bertc.lang.read.tree import Tree
from bertc.lang.write.format import format_text
from bertc.lang.write.show import quote, show, show_value

__all__ = [
    "SpecLocation", "Tree", "Written", "format_text", "load", "parse", "quote", "read_spec",
    "setting_shape", "show", "show_value",
]  # fmt: skip
