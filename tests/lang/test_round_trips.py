"""Every kind can be printed and reads back the same, and what messages name takes its values."""

import ast
import re
import typing
from functools import cache
from itertools import product
from types import UnionType

import pytest
from hypothesis import given, reject, settings, strategies as st
from pydantic import ValidationError

from bertc import lang
from bertc.base.diagnostics import Diagnostics
from bertc.cli.emit import emit
from bertc.ir.base import Node, is_plain
from bertc.ir.program.settings import Settings, aliases
from bertc.ir.written import Given, Origin, Program
from bertc.lang.lowering.convert import Converter
from bertc.lang.lowering.grids import alternatives
from bertc.lang.read import shapes
from tests.test_architecture import FILES, PACKAGE


def node_classes(annotation=Settings):
    """Every node class that a value of a setting can hold."""
    found: set[type[Node]] = set()
    if isinstance(annotation, type) and issubclass(annotation, Node):
        found.add(annotation)
        for name, field in annotation.model_fields.items():
            if name not in annotation.looked_up:  # what files say is never written
                found |= node_classes(field.annotation)
    elif isinstance(annotation, UnionType) or typing.get_args(annotation):
        for part in typing.get_args(annotation):
            found |= node_classes(part)
    return found


KINDS = sorted(node_classes() - {Settings}, key=lambda node: node.__name__)
DRAWN = cache(lambda node: {n: values(shape) for n, shape in shapes.arguments(node).items()})


def integers(bounds):
    low = bounds.ge if bounds.ge is not None else (bounds.gt or -1000)
    high = bounds.le if bounds.le is not None else (bounds.lt or 1000)
    return st.integers(int(low), int(high))


def floats(bounds):
    low = bounds.ge if bounds.ge is not None else bounds.gt
    high = bounds.le if bounds.le is not None else bounds.lt
    return st.floats(
        min_value=low, max_value=high, exclude_min=bounds.ge is None and bounds.gt is not None,
        exclude_max=bounds.le is None and bounds.lt is not None, allow_nan=False,
        allow_infinity=False,
    )  # fmt: skip


def values(shape):
    forms = [st.sampled_from([*shape.words.values()])] if shape.words else []
    forms += [nodes(n) for n in dict.fromkeys(shape.kinds.values())]
    forms += [integers(shape.whole)] if shape.whole else []
    forms += [floats(shape.number)] if shape.number else []
    if shape.text:
        characters = st.characters(exclude_categories=["Cs"])
        texts = st.text(characters, min_size=max(1, shape.text.ge), max_size=12)
        forms.append(texts.filter(is_plain) if shape.plain else texts)
    if node := shape.term:
        name = shapes.summed_field(node)
        term = st.builds(
            lambda weight, inner: node(**{"weight": weight, name: inner}),
            st.floats(0.001, 1e6),
            values(shape.item),
        )
        forms.append(st.lists(term, min_size=1, max_size=3).map(tuple))
    elif shape.item:
        count = shape.length
        lists = st.lists(values(shape.item), min_size=count or shape.least, max_size=count or 4)
        forms.append(lists.map(tuple))
    return st.one_of(*forms)


@st.composite
def nodes(draw, node):
    """A node of one class, some of its arguments at their defaults."""
    needed = shapes.required(node)
    chosen = {
        name: draw(drawn)
        for name, drawn in DRAWN(node).items()
        if name in needed or draw(st.booleans())
    }
    if node.others:
        names = st.lists(st.sampled_from(["en", "fr", "zh-hans", "pt_br"]), min_size=2, max_size=2)
        both = draw(names.filter(lambda two: len(set(two)) == 2))
        chosen[node.others] = tuple(
            (name, draw(values(shapes.Shape(text=shapes.Limits(ge=1))))) for name in both
        )
        needed = [*needed, node.others]
    if "kind" in node.model_fields:
        chosen["kind"] = draw(st.sampled_from(shapes.kinds_of(node)))
    try:
        return node(**chosen)
    except ValidationError:  # a rule between arguments
        pass
    try:
        return node(**{name: value for name, value in chosen.items() if name in (*needed, "kind")})
    except ValidationError:  # of two that exclude each other one is needed
        reject()


def read_back(text, shape):
    diagnostics = Diagnostics()
    (setting,) = lang.parse(f"x = {text}\n", "<test>", diagnostics).settings()
    value = Converter("x", diagnostics).convert(setting.value, shape)
    assert not diagnostics.found, text
    return value


def test_the_walk_finds_the_kinds():
    names = {node.__name__ for node in KINDS}
    assert {"Mlm", "SpanUnit", "Replace", "ShareMap", "Lamb", "Hf", "LearnedPositions"} <= names


@pytest.mark.parametrize("node", KINDS, ids=lambda node: node.__name__)
def test_every_kind(node):
    if other := shapes.summed_field(node):
        shape = shapes.Shape(item=shapes.arguments(node)[other], term=node)
    else:
        shape = shapes.Shape(kinds=dict.fromkeys(shapes.kinds_of(node), node))
    strategy = values(shape)

    @settings(max_examples=15, deadline=None, database=None, derandomize=True)
    @given(strategy, st.booleans())
    def holds(value, full):
        assert read_back(lang.show_value(value, shape, full=full), shape) == value
        assert read_back(lang.show_value(value, full=full), shape) == value

    holds()


@pytest.mark.parametrize("setting", Settings.model_fields)
def test_every_setting(setting):
    @settings(max_examples=10, deadline=None, database=None, derandomize=True)
    @given(values(shapes.setting_shape(setting)))
    def holds(value):
        program = Program("spec", {setting: Given(value, Origin("written"))})
        (again,) = lang.load(lang.show(program))
        assert again == program
        assert type(again.settings[setting].value) is type(value)

    holds()


def test_a_program_with_stages_and_a_base():
    text = """\
extends bert-base
hidden = 256
share = map([0, 0, 2], ffn=[0, 1, 2])
objective = 0.5*mlm(unit=span(p=0.3)) + sop

stage "short" {
    steps = 900000
    seq = 128
}

stage "a \\"long\\" one" {
    seq = 512
}
"""
    (program,) = lang.load(text)
    assert lang.load(lang.show(program)) == [program]
    assert program.base.name == "bert-base"


def test_origins_become_comments_that_read_as_nothing():
    (program,) = lang.load("hidden=256", ["heads=4"])
    text = emit("hidden=256", ["heads=4"], "program")
    assert "hidden = 256  # written: <spec>:1:1" in text
    assert "heads = 4  # set: --set #1:1:1" in text
    assert lang.load(text) == [program]


HOLE = "\0"
"""What stands for a value that a message puts in."""
FILLED = ("1", "30k", "5%", "", "mlm", "'x'", "a, b", "none", "trim", "adamw", "cosine", "flops")
_PIECES = (r"[^\s=,;:`()\[\]{}\"']", r"\([^()]*\)", r"\[[^]]*\]", "{[^}]*}", '"[^"]*"', "'[^']*'")
NAMED = re.compile(rf"(?<![\w.\-,&?/])([A-Za-z_]+)=((?:{'|'.join(_PIECES)})+)")
ELSEWHERE = ("use/source", "lab/drawing", "lab/report")
"""Files of texts for programs of others."""


def joined(node):
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


def texts():
    """Texts in the sources but docstrings, each with its place."""
    for path in FILES:
        if str(path.relative_to(PACKAGE)).startswith(ELSEWHERE):
            continue
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        whole = [node for node in nodes if isinstance(node, ast.JoinedStr | ast.BinOp)]
        whole += [n for n in nodes if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)]
        parts = {id(part) for node in whole for part in ast.walk(node) if part is not node}
        for node in nodes:
            if id(node) not in parts and (text := joined(node)):
                yield f"{path}:{getattr(node, 'lineno', 0)}", text


@cache
def shapes_of(name):
    """The shapes of a setting and of every argument of this name."""
    name = aliases().get(name, name)
    known = [shapes.setting_shape(name)] if name in Settings.model_fields else []
    return known + [has[name] for node in KINDS if name in (has := shapes.arguments(node))]


def takes(name, value):
    """Whether one of them takes a value."""
    for shape in shapes_of(name):
        found = Diagnostics()
        Converter(name, found).convert(value, shape)
        if not found.found:
            return True
    return False


def works(name, text):
    """Whether a value works, with something in each hole."""
    before, *after = text.split(HOLE)
    for fills in product(FILLED, repeat=len(after)):
        filled = before + "".join(map("".join, zip(fills, after, strict=True)))
        found = Diagnostics()
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
    assert {setting: place for setting, place in named.items() if not works(*setting)} == {}
