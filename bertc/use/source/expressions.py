"""Recorded calls as Python: syntax trees, and their text in lines of at most 100 columns."""

import ast
import inspect
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F

from bertc.use.source.sizes import BatchSize

WIDTH = 100
NONE: Mapping[str, ast.expr] = MappingProxyType({})
BINARY: dict[str, ast.operator] = {
    "add": ast.Add(), "sub": ast.Sub(), "mul": ast.Mult(), "div": ast.Div(), "truediv": ast.Div(),
    "matmul": ast.MatMult(), "pow": ast.Pow(), "and": ast.BitAnd(), "or": ast.BitOr(),
    "floordiv": ast.FloorDiv(), "mod": ast.Mod(), "xor": ast.BitXor(), "bitwise_xor": ast.BitXor(),
    "bitwise_or": ast.BitOr(), "rshift": ast.RShift(), "lshift": ast.LShift(),
}  # fmt: skip
COMPARISONS: dict[str, ast.cmpop] = {
    "eq": ast.Eq(), "ne": ast.NotEq(), "lt": ast.Lt(), "le": ast.LtE(), "gt": ast.Gt(),
    "ge": ast.GtE(),
}  # fmt: skip
UNARY: dict[str, ast.unaryop] = {"invert": ast.Invert(), "neg": ast.USub()}
ATTENTION_ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


def dotted(text: str) -> ast.expr:
    """An expression from its text, such as a dotted name."""
    return ast.parse(text, mode="eval").body


def dotted_statement(text: str) -> ast.stmt:
    """A statement from its text."""
    return ast.parse(text).body[0]


def call_node(
    function: ast.expr, args: list[ast.expr], kwargs: Mapping[str, ast.expr] = NONE
) -> ast.expr:
    """A call of a function."""
    return ast.Call(function, args, [ast.keyword(key, value) for key, value in kwargs.items()])


def operation(function: str, args: list[ast.expr], kwargs: dict[str, ast.expr]) -> ast.expr:
    """The expression of a call of torch."""
    *owner, method = function.split(".")
    if owner == ["torch", "Tensor", method] or function.endswith(".__get__"):
        return ast.Attribute(args[0], owner[-1])
    if owner == ["torch", "Tensor"]:
        plain = method.strip("_")
        turned = plain[1:] if method.startswith("__r") and plain[1:] in BINARY else ""
        if len(args) == 2 and not kwargs:
            if plain in BINARY or turned:
                left, right = args if plain in BINARY else args[::-1]
                return ast.BinOp(left, BINARY[turned or plain], right)
            if plain in COMPARISONS:
                return ast.Compare(args[0], [COMPARISONS[plain]], [args[1]])
            if method == "__getitem__":
                return ast.Subscript(args[0], args[1])
        if plain in UNARY and len(args) == 1:
            return ast.UnaryOp(UNARY[plain], args[0])
        return call_node(ast.Attribute(args[0], method), args[1:], kwargs)
    module = "F" if owner[:3] == ["torch", "nn", "functional"] else "torch"
    return call_node(ast.Attribute(ast.Name(module), method), args, kwargs)


def written_arguments(
    function: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any]:
    """Arguments without those that have their default, and with names where there are many."""
    method = function.split(".")[-1]
    if method == "scaled_dot_product_attention":
        named = dict(zip(ATTENTION_ARGUMENTS, args, strict=False))
        defaults = {"attn_mask": None, "dropout_p": 0.0, "is_causal": False}
        rest = {key: value for key, value in named.items() if value != defaults.get(key, ...)}
        first = tuple(rest.pop(key) for key in ("query", "key", "value"))
        return first, {**rest, **kwargs}
    if "functional" not in function or not (defaults := _defaults(method)):
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


def literal(value: Any, size: Callable[[BatchSize], ast.expr] | None = None) -> ast.expr:
    """A plain value; ``size`` writes sizes of batches."""
    match value:
        case BatchSize() if size:
            return size(value)
        case tuple():
            return ast.Tuple([literal(part, size) for part in value])
        case list():
            return ast.List([literal(part, size) for part in value])
        case torch.dtype():
            return dotted(str(value))
        case float() if math.isinf(value):
            return dotted("torch.inf" if value > 0 else "-torch.inf")
        case 0x7FFFFFFFFFFFFFFF:
            return dotted("2**63 - 1")
        case float() | int() if value < 0:
            return ast.UnaryOp(ast.USub(), ast.Constant(-value))
    return ast.Constant(value)


def code(node: ast.AST) -> str:
    """One line."""
    written = ast.unparse(ast.fix_missing_locations(node))
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', written)


def _top(node: ast.expr) -> str:
    """An expression that is a statement's; a tuple without brackets."""
    written = code(node)
    return written[1:-1] if isinstance(node, ast.Tuple) and len(node.elts) > 1 else written


def code_lines(node: ast.stmt, indent: int) -> list[str]:
    """A statement in lines that fit, indented by ``indent`` columns."""
    pad = " " * indent
    if isinstance(node, ast.For):
        head = f"{pad}for {_top(node.target)} in {code(node.iter)}:"
        return [head, *(line for inner in node.body for line in code_lines(inner, indent + 4))]
    if isinstance(node, ast.Assign):
        prefix, value = f"{pad}{_top(node.targets[0])} = ", node.value
    elif isinstance(node, ast.Return) and node.value is not None:
        prefix, value = f"{pad}return ", node.value
    else:
        return [pad + line for line in code(node).splitlines()]
    if len(prefix + _top(value)) <= WIDTH:
        return [prefix + _top(value)]
    return _broken(prefix, value, "", indent)


def _broken(prefix: str, node: ast.expr, suffix: str, indent: int) -> list[str]:
    """An expression after a prefix, broken at its outermost brackets where it is too long."""
    whole = prefix + code(node) + suffix
    if len(whole) <= WIDTH:
        return [whole]
    pad = " " * indent
    if isinstance(node, ast.Call) and (node.args or node.keywords):
        head = code(node.func)
        inner = node.func.value if isinstance(node.func, ast.Attribute) else node
        if inner is not node and any(isinstance(part, ast.Call) for part in ast.walk(inner)):
            return _broken(prefix, inner, code(node)[len(code(inner)) :] + suffix, indent)
        parts = [("", arg) for arg in node.args]
        parts += [(f"{keyword.arg}=", keyword.value) for keyword in node.keywords]
        return _listed(f"{prefix}{head}(", parts, f"){suffix}", indent)
    if isinstance(node, (ast.Tuple, ast.List)):
        first, last = "()" if isinstance(node, ast.Tuple) else "[]"
        return _listed(prefix + first, [("", part) for part in node.elts], last + suffix, indent)
    if isinstance(node, ast.Dict):
        keys = [f"{code(key)}: " for key in node.keys if key]
        entries = list(zip(keys, node.values, strict=True))
        return _listed(prefix + "{", entries, "}" + suffix, indent, each=True)
    if isinstance(node, ast.BinOp):
        within = f"{pad}    {code(node)}"
        if len(within) > WIDTH:
            sign = code(ast.BinOp(ast.Name("a"), node.op, ast.Name("b")))[1:-1].strip()
            left = _broken(f"{pad}    ", node.left, "", indent + 4)
            within = "\n".join([*left, *_broken(f"{pad}    {sign} ", node.right, "", indent + 4)])
        return [f"{prefix}(", *within.split("\n"), f"{pad}){suffix}"]
    if isinstance(node, (ast.Subscript, ast.Attribute)):
        return _broken(prefix, node.value, code(node)[len(code(node.value)) :] + suffix, indent)
    return [whole]


def _listed(
    head: str, parts: list[tuple[str, ast.expr]], last: str, indent: int, *, each: bool = False
) -> list[str]:
    """Parts between brackets, on one line if they fit and are not each on one."""
    pad = " " * (indent + 4)
    together = pad + ", ".join(before + code(part) for before, part in parts)
    if len(together) <= WIDTH and not each:
        return [head, together, " " * indent + last]
    inner = [
        line for before, part in parts for line in _broken(pad + before, part, ",", indent + 4)
    ]
    return [head, *inner, " " * indent + last]


def class_lines(node: ast.ClassDef) -> list[str]:
    """A class in lines."""
    result = [f"class {node.name}({code(node.bases[0])}):"]
    for part in node.body:
        if isinstance(part, ast.FunctionDef):
            if len(result) > 1:
                result.append("")
            names: list[tuple[str, ast.expr]] = [("", ast.Name(arg.arg)) for arg in part.args.args]
            head, line = f"    def {part.name}(", f"    def {part.name}({code(part.args)}):"
            result += [line] if len(line) <= WIDTH else _listed(head, names, "):", 4)
            result += [line for statement in part.body for line in code_lines(statement, 8)]
        elif isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
            result.append(f'    """{ast.literal_eval(part.value)}"""')
    return result
