"""Recorded calls as Python: expressions as text, and statements in lines of at most 100 columns.

Numbers of a program that have a name in its file are written by it. Parts of an expression are put
between brackets; ``code`` leaves those out that say nothing.
"""

import ast
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch.nn.functional as F

from bertc.ir.network.encoder import Encoder
from bertc.ir.network.positions import RotaryPositions
from bertc.ir.program import Resolved
from bertc.use.source.sizes import BatchSize

WIDTH = 100
BINARY = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "truediv": "/", "floordiv": "//", "mod": "%",
    "matmul": "@", "pow": "**", "and": "&", "or": "|", "xor": "^", "bitwise_xor": "^",
    "bitwise_or": "|", "rshift": ">>", "lshift": "<<", "eq": "==", "ne": "!=", "lt": "<",
    "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
UNARY = {"invert": "~", "neg": "-"}
LOOSELY = (" if ", " else "), (" | ",), (" ^ ",), (" & ",), (" + ", " - "), (" * ", " / ", " @ ")
"""Signs at which a long expression is broken, the loosest first."""
ATTENTION_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


def call_expression(function: str, args: list[str], kwargs: Mapping[str, str] | None = None) -> str:
    """A call of a function."""
    named = [f"{key}={value}" for key, value in (kwargs or {}).items()]
    return f"{function}({', '.join([*args, *named])})"


def tuple_expression(parts: list[str]) -> str:
    """A tuple."""
    return f"({', '.join(parts)},)" if parts else "()"


def operation(function: str, args: list[str], kwargs: dict[str, str]) -> str:
    """The expression of a call of torch."""
    *owner, method = function.split(".")
    if owner[:2] != ["torch", "Tensor"]:
        module = "F" if owner[:3] == ["torch", "nn", "functional"] else "torch"
        return call_expression(f"{module}.{method}", args, kwargs)
    first, plain = f"({args[0]})", method.strip("_")
    if owner[-1] == method or method == "__get__":
        return f"{first}.{owner[-1]}"
    if len(args) == 2 and not kwargs:
        if plain in BINARY:
            return f"{first} {BINARY[plain]} ({args[1]})"
        if method.startswith("__r") and plain[1:] in BINARY:
            return f"({args[1]}) {BINARY[plain[1:]]} {first}"
        if method == "__getitem__":
            return f"{first}[{args[1][1:-2] if args[1].endswith(',)') else args[1]}]"
    if plain in UNARY and len(args) == 1:
        return UNARY[plain] + first
    return call_expression(f"{first}.{method}", args[1:], kwargs)


def plain_arguments(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Arguments without those that have their default, and with names where there are many."""
    method = name.split(".")[-1]
    if method == "scaled_dot_product_attention":
        named = dict(zip(ATTENTION_ARGUMENTS, args, strict=False))
        defaults = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False}
        rest = {key: value for key, value in named.items() if value != defaults.get(key, ...)}
        first = tuple(rest.pop(key) for key in ("query", "key", "value"))
        return first, {**rest, **kwargs}
    if "functional" not in name or not (defaults := _defaults(method)):
        return args, kwargs
    return args, {k: v for k, v in kwargs.items() if k not in defaults or defaults[k] != v}


@cache
def _defaults(method: str) -> dict[str, Any]:
    """Defaults of a function of torch.nn.functional that is written in Python."""
    function: Callable[..., Any] | None = getattr(F, method, None)
    try:
        parameters = inspect.signature(function).parameters if function else {}
    except ValueError:
        return {}
    return {key: parameter.default for key, parameter in parameters.items()}


def literal(value: Any, size: Callable[[BatchSize], str] | None = None) -> str:
    """A plain value; ``size`` writes sizes of batches."""
    match value:
        case BatchSize() if size:
            return size(value)
        case float() if math.isinf(value):
            return "torch.inf" if value > 0 else "-torch.inf"
    return "..." if value is Ellipsis else repr(value)


def code(text: str) -> str:
    """Statements, or an expression, with the brackets that they need."""
    written = ast.unparse(ast.parse(text))
    written = re.sub(r"'([^'\"\\]*)'", r'"\1"', written)
    # A tuple that is a statement's target or value.
    bare = r"^(\s*(?:for |return |.* = |))\(([^()]+, [^()]+)\)(| = .*| in .*)$"
    return re.sub(bare, r"\1\2\3", re.sub(bare, r"\1\2\3", written, flags=re.M), flags=re.M)


def code_lines(statements: list[str]) -> list[str]:
    """Statements of a class in lines that fit."""
    lines = code("\n".join(statements)).splitlines()
    return [part for line in lines for part in _fit(f"    {line}".rstrip())]


def method(name: str, arguments: list[str], statements: list[str]) -> str:
    """A method."""
    body = "\n".join(statements)
    return f"def {name}({', '.join(['self', *arguments])}):\n{textwrap.indent(body, '    ')}"


def _fit(line: str) -> list[str]:
    """A line in lines that fit, broken at its longest brackets, else at its signs."""
    if len(line) <= WIDTH:
        return [line]
    pad = " " * (len(line) - len(line.lstrip()))
    pairs = [(end - start, start + 1, end) for depth, start, end in _brackets(line) if not depth]
    _, start, end = max(pairs, default=(0, 0, 0))
    head, inner, last = line[:start], line[start:end], pad + line[end:]
    if end - start > 1 and len(head) <= WIDTH >= len(last):
        if len(pad) + 4 + len(inner) <= WIDTH and not head.endswith("{"):
            return [head, f"{pad}    {inner}", last]
        after = "," if len(_split(inner, (" for ",))) == 1 else ""  # not in a comprehension
        parts = [f"{pad}    {part}{after}" for part in _split(inner, (", ",))]
        return [head, *(piece for part in parts for piece in _fit(part)), last]
    begun = re.match(r"\s*(?:return |[^()]*? = )?", line)
    assert begun, "it matches everything"
    value, comma = line[begun.end() :].removesuffix(","), "," * line.endswith(",")
    signs = next((signs for signs in LOOSELY if len(_split(value, signs)) > 1), ())
    if not signs:
        return [line]
    parts = [piece for part in _split(value, signs) for piece in _fit(f"{pad}    {part}")]
    return [f"{begun[0]}(", *parts, f"{pad}){comma}"]


def _brackets(line: str) -> Iterator[tuple[int, int, int]]:
    """Pairs of brackets: how many there are around them, and their places."""
    opened = list[int]()
    for place, character in enumerate(line):
        if character in "([{":
            opened.append(place)
        elif character in ")]}" and opened:
            start = opened.pop()
            yield len(opened), start, place


def _split(text: str, signs: tuple[str, ...]) -> list[str]:
    """A text in parts that begin with one of these signs, outside of its brackets."""
    inner = [(start, end) for depth, start, end in _brackets(text) if not depth]
    places = (match.start() for match in re.finditer("|".join(map(re.escape, signs)), text))
    cuts = [place for place in places if not any(start < place < end for start, end in inner)]
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    return [part.removeprefix(", ").strip() for part in parts]


NAMED_NUMBERS = ("EPS", "ROTARY_BASE", "LOCAL_ROTARY_BASE")
ROOTED = ("HIDDEN", "HEAD_DIM", "EMBEDDING")
"""Sizes whose roots scale."""


@dataclass(frozen=True)
class Constants:
    """Numbers of a program with a name: axes of weights, and others."""

    sizes: Mapping[tuple[str, int], str]
    values: Mapping[str, int | float]
    hub: bool = False  # for classes of transformers, which return states and weights of layers

    @property
    def layers(self) -> int:
        """The number of layers."""
        return int(self.values.get("LAYERS", 0))

    def number(self, value: float) -> str:
        """A number by its name, as a root of a size, or as it is."""
        for name in NAMED_NUMBERS:
            if self.values.get(name) == value:
                return name
        for power in (0.5, -0.5, 0.25, -0.25) if 1e-3 < value < 1e3 else ():
            size = max(1, round(value ** (1 / power)))
            name = next((name for name in ROOTED if self.values.get(name) == size), "")
            if size**power == value and (name or round(value, 6) != value):
                return f"{name or size} ** {power}"
        return literal(value)

    def rate(self, rate: float) -> str:
        """A rate of dropout."""
        return "DROPOUT" if rate == self.values.get("DROPOUT") else literal(rate)


def constants_of(resolved: Resolved) -> Constants:
    """Sizes of the main network."""
    body = resolved.encoder
    values: dict[str, int | float] = {"VOCAB": body.vocab_size, "HIDDEN": body.hidden}
    values["EMBEDDING"] = body.embedding
    sizes = {("vocab", body.vocab_size): "VOCAB", ("hidden", body.hidden): "HIDDEN"}
    sizes["embedding", body.embedding] = "HIDDEN" if body.embedding == body.hidden else "EMBEDDING"
    if isinstance(body, Encoder):
        first = body.layers[0]
        values |= {"LAYERS": body.depth, "HEADS": first.heads, "HEAD_DIM": first.head_dim}
        values |= {"FFN": first.ffn, "POSITIONS": body.positions.rows, "SEGMENTS": body.segments}
        values |= {"DROPOUT": body.dropout.hidden, "EPS": body.norm.eps}
        if isinstance(body.positions, RotaryPositions):
            values["ROTARY_BASE"] = body.positions.theta
            values["LOCAL_ROTARY_BASE"] = body.positions.local_theta
        inner = first.heads * first.head_dim
        sizes["heads", inner] = "HIDDEN" if inner == body.hidden else "HEADS * HEAD_DIM"
        sizes |= {("ffn", first.ffn): "FFN", ("positions", body.positions.rows): "POSITIONS"}
        sizes["segments", body.segments] = "SEGMENTS"
    return Constants(sizes, values)


def declare_constants(constants: Constants, text: str) -> list[str]:
    """Lines of the constants that a text reads."""
    read = [name for name in constants.values if re.search(rf"\b{name}\b", text)]
    return [f"{name} = {constants.values[name]!r}" for name in read]
