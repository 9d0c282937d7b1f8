"""Specs: text to tree to program, and back to canonical text."""

from bertc.lang.files import SpecLocation
from bertc.lang.load import load
from bertc.lang.read.parse import parse
from bertc.lang.read.tree import Tree
from bertc.lang.write.format import format_text
from bertc.lang.write.show import show, show_value

__all__ = ["SpecLocation", "Tree", "format_text", "load", "parse", "show", "show_value"]
