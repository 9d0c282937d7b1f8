"""Text to tree to program, and back to canonical text."""

from bertc.syntax.fixes import apply_fixes
from bertc.syntax.format import format_text
from bertc.syntax.load import load, lower
from bertc.syntax.parse import parse
from bertc.syntax.show import show, show_value
from bertc.syntax.tree import Tree

__all__ = [
    "Tree",
    "apply_fixes",
    "format_text",
    "load",
    "lower",
    "parse",
    "show",
    "show_value",
]
