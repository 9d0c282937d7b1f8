"""Every setting and argument that a message names with a value takes such a value."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import product

from bertc import lang
from bertc.base.diagnostics import Diagnostics
from bertc.ir.program.settings import Settings, aliases
from bertc.lang.lowering.convert import Converter
from bertc.lang.lowering.grids import alternatives
from bertc.lang.read import shapes
from bertc.lang.read.tree import Value
from tests.lang.test_round_trips import KINDS
from tests.test_architecture import FILES, PACKAGE

HOLE = "\0"
"""What stands for a value that a message puts in."""
FILLED = ("1", "30k", "5%", "", "mlm", "'x'", "a, b", "none", "trim", "adamw", "cosine", "flops")
_PIECES = (r"[^\s=,;:`()\[\]{}\"']", r"\([^()]*\)", r"\[[^]]*\]", "{[^}]*}", '"[^"]*"', "'[^']*'")
NAMED = re.compile(rf"(?<![\w.\-,&?/])([A-Za-z_]+)=((?:{'|'.join(_PIECES)})+)")
ELSEWHERE = ("use/source", "lab/drawing", "lab/report", "cli/slurm.py")
"""Files of texts for programs of others."""


def joined(node: ast.AST) -> str:
    """The text of a literal, of one with values in it, or of several added."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(joined(part) or HOLE for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return (joined(left) or HOLE) + (joined(right) or HOLE)
        case _:
            return ""


def texts() -> Iterator[tuple[str, str]]:
    """Texts in the sources but docstrings, each with its place."""
    for path in FILES:
        if str(path.relative_to(PACKAGE)).startswith(ELSEWHERE):
            continue
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        whole = (node for node in nodes if isinstance(node, ast.JoinedStr | ast.BinOp))
        docs = (n for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))
        parts = {
            id(part) for node in (*whole, *docs) for part in ast.walk(node) if part is not node
        }
        for node in nodes:
            if id(node) not in parts and (text := joined(node)):
                yield f"{path}:{getattr(node, 'lineno', 0)}", text


@cache
def shapes_of(name: str) -> list[shapes.Shape]:
    """The shapes of a setting and of every argument of this name."""
    name = aliases().get(name, name)
    known = [shapes.setting_shape(name)] if name in Settings.model_fields else []
    return known + [has[name] for node in KINDS if name in (has := shapes.arguments(node))]


def takes(name: str, value: Value) -> bool:
    """Whether one of them takes a value."""
    for shape in shapes_of(name):
        found = Diagnostics()
        Converter(name, found).convert(value, shape)
        if not found.found:
            return True
    return False


def works(name: str, text: str) -> bool:
    """Whether a value works, with something in each hole."""
    before, *after = text.split(HOLE)
    for fills in product(FILLED, repeat=len(after)):
        found, filled = (
            Diagnostics(),
            before + "".join(map("".join, zip(fills, after, strict=True))),
        )
        settings = list(lang.parse(f"{name}={filled}\n", diagnostics=found).settings())
        if not found.found and all(takes(name, v) for v in alternatives(settings[0].value)):
            return True
    return False


def test_what_messages_name_works():
    named = {
        (match[1], match[2].rstrip(".")): place
        for place, text in texts()
        for match in NAMED.finditer(text)
        if shapes_of(match[1]) and "..." not in match[2] and match[2] not in ("?", HOLE)
    }
    assert len(named) > 140
    wrong = {
        place: f"{name}={text}" for (name, text), place in named.items() if not works(name, text)
    }
    assert wrong == {}
