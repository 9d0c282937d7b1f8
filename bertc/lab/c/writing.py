"""A traced graph as statements of C, in the order in which they are computed."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any

import sympy
import torch
from torch import SymInt, Tensor
from torch.fx import Node
from torch.fx.node import map_aggregate

from bertc import DataError
from bertc.lab.c.expressions import (
    CHEAP,
    ENTRIES,
    INSTEAD,
    ZERO,
    Index,
    N,
    Shape,
    Value,
    axis,
    c_text,
    combined,
    dense,
    divided,
    plain,
    size,
    uniform,
)  # fmt: skip

PANEL = 16
"""Rows of a matrix that lie side by side in memory, so that a product reads them in order."""
IGNORED = ("_assert_tensor_metadata", "_assert_scalar", "sym_constrain_range_for_size")
UNREAD = ("device", "layout", "pin_memory", "memory_format", "dtype")
LETTERS = "ijklmo"
Layout = tuple[Shape, Shape, torch.dtype]
"""Shape, steps and kind of a result."""


@dataclass
class Statement:
    """Lines of C, with ``$b3$`` for buffers, ``$w5$`` for weights and ``$r0$`` for results."""

    text: str
    about: str
    writes: str = ""
    scratch: str = ""


@dataclass(frozen=True)
class Tag:
    """A buffer, or a weight with its numbers; ``packed`` in panels, of ``int8`` after scales."""

    name: str
    size: Index
    floats: bool = True
    tensor: Tensor | None = None
    packed: bool = False
    int8: bool = False


@dataclass
class Writer:
    """Statements so far, those that depend on ``n`` alone before the others; their tags."""

    kernels: dict[str, Callable[..., Value]]
    letters: dict[Index, str]
    packed: set[int]
    names: dict[int, str]
    tags: dict[str, Tag] = field(default_factory=dict)
    early: list[Statement] = field(default_factory=list)
    late: list[Statement] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    memo: dict[Any, Any] = field(default_factory=dict)
    name: str = ""
    module: str = ""
    int8: bool = False

    def say(self, out: Value, *lines: str, scratch: str = "") -> Value:
        """Write the statement that computes a buffer."""
        statement = Statement("\n".join(lines), self.module, out.buffer, scratch)
        (self.early if out.early else self.late).append(statement)
        return out

    def buffer(
        self, shape: Shape, dtype: torch.dtype, early: bool, steps: Shape | None = None
    ) -> Value:
        """New memory for a tensor."""
        tag, steps = f"$b{len(self.tags)}$", steps or dense(shape)
        extent = 1 + sum(((n - 1) * p for n, p in zip(shape, steps, strict=True)), ZERO)
        self.tags[tag] = Tag(self.name, sympy.expand(extent), dtype.is_floating_point)
        entry = lambda address: f"{tag}[{c_text(address)}]"  # noqa: E731
        return Value(shape, steps, dtype, entry, buffer=tag, early=early)

    def value(self, operand: Any) -> Value:
        """An operand as a tensor: one that is known now, a size, or a number."""
        if isinstance(operand, Value):
            return operand
        if isinstance(operand, Tensor):
            return self._weight(operand)
        if isinstance(operand, sympy.Expr) and not operand.is_number:
            return Value((), (), torch.int64, lambda _: f"({c_text(operand)})")
        fraction = isinstance(operand, float | sympy.Float)
        return uniform((), torch.float32 if fraction else torch.int64, float(operand))

    def _weight(self, tensor: Tensor) -> Value:
        shape = tuple(map(sympy.Integer, tensor.shape))
        base = tensor if tensor._base is None else tensor._base
        tag, (*_, width), key = f"$w{base.data_ptr()}$", (1, *base.shape), base.data_ptr()
        few = tensor.numel() if not tensor.is_floating_point() else tensor.numel() == 1
        if key not in self.names and few and bool((tensor == tensor.flatten()[0]).all()):
            return uniform(shape, tensor.dtype, tensor.flatten()[0].item())
        packed = key in self.packed
        if tag not in self.tags:
            name = self.names.get(key) or f"{self.name}_{'weight' if base.ndim > 1 else 'bias'}"
            rows = -(-base.shape[0] // PANEL) * PANEL if packed else 0
            of_row = 2 + -(-width // 4) if self.int8 else width
            form = rows * of_row or base.numel(), True, base, packed, packed and self.int8
            self.tags[tag] = Tag(name, *form)

        def entry(address: Index) -> str:
            if packed:
                row, column = divided(address, width)
                if self.int8:
                    places = map(c_text, (base.shape[0], width, row, column))
                    return f"int8_entry({tag}, {', '.join(places)})"
                panel, rest = divided(row, PANEL)
                address = sympy.expand(panel * PANEL * width + column * PANEL + rest)
            text = f"{tag}[{c_text(address)}]"
            return text if tensor.is_floating_point() else f"(long){text}"

        steps = tuple(map(sympy.Integer, tensor.stride()))
        in_memory = tag if tensor.is_floating_point() and not packed else ""
        return Value(shape, steps, tensor.dtype, entry, tensor.storage_offset() + ZERO, in_memory)

    def axes(self, shape: Shape) -> tuple[list[str], Shape]:
        """Loops over a shape, and their variables, which are named for their sizes."""
        loops, indices, used = list[str](), list[Index](), set[str]()
        for length in shape:
            names = [self.letters.get(length, ""), *("t" if length == N else ""), *LETTERS]
            name = next(name for name in names if name and name not in used)
            indices.append(axis(name, length))
            if length != 1:
                used.add(name)
                loops.append(f"for (long {name} = 0; {name} < {c_text(length)}; {name}++)")
        return loops, tuple(indices)

    def store(self, value: Value, *, keep: bool = False, into: Value | None = None) -> Value:
        """Compute a tensor into memory: without gaps, or ``keep`` its steps."""
        early, steps = value.early, value.steps if keep else dense(value.shape)
        out = into or self.buffer(value.shape, value.dtype, early, steps)
        loops, indices = self.axes(value.shape)
        text, cast = value.at(indices), "" if value.floats else "(int32_t)"
        line = f"{out.entry(out.address(indices))} = {cast}{text if cast else bare(text)};"
        return self.say(out, *nested(loops, line))

    def held(self, value: Value) -> Value:
        """The tensor in memory."""
        if value.buffer:
            return value
        if value not in self.memo:
            self.memo[value] = self.store(value)
        stored: Value = self.memo[value]
        return stored

    def rows(self, value: Value) -> tuple[str, str]:
        """A tensor as rows in memory: pointer to the first and step to the next; their number."""
        value, count = self.held(value), size(value.shape[:-1])
        axes = [(n, p) for n, p in zip(value.shape[:-1], value.steps, strict=False) if n != 1]
        even = all(p == q * m for (_, p), (m, q) in pairwise(axes))
        if not (even and (value.steps[-1] == 1 or value.shape[-1] == 1)):
            value = self.store(value)
            axes = [(ZERO, value.shape[-1])]
        return f"{value.pointer}, {c_text(axes[-1][1] if axes else ZERO)}", c_text(count)

    def read(self, node: Node) -> None:
        """Write what a node computes, or note what it is; the same is computed once."""
        result = node.meta.get("val")
        operation = getattr(node.target, "_opname", "")
        if operation in IGNORED or result is None:
            return
        if isinstance(result, SymInt | int | float):
            self.values[node.name] = plain(result)
            return
        options = {name: value for name, value in node.kwargs.items() if name not in UNREAD}
        read: Any = map_aggregate([[*node.args], options], self._argument)
        args, options = read
        key = str((node.target, map_aggregate([args, options], _key)))
        if key not in self.memo:
            self.module = [*(node.meta.get("nn_module_stack") or {"": ("",)}).values()][-1][0]
            self.name = name_of(self.module, operation)
            self.memo[key] = self._result(node, operation, args, options), args
        self.values[node.name] = self.memo[key][0]

    def _argument(self, value: Any) -> Any:
        return self.values[value.name] if isinstance(value, Node) else plain(value)

    def _result(self, node: Node, operation: str, args: list[Any], options: dict[str, Any]) -> Any:
        target, result = node.target, node.meta["val"]
        if not operation:
            return args[0][int(args[1])]
        parts = list[Any]()
        map_aggregate([args, options], parts.append)
        if not any(map(_depends, parts)):
            dtype = {"dtype": node.kwargs["dtype"]} if "dtype" in node.kwargs else {}
            known: Any = map_aggregate([args, options], _concrete)
            with torch.no_grad():
                return target(*known[0], **known[1], **dtype)  # type: ignore[operator]
        if _is_view(node):
            of, several = self.value(args[0]), isinstance(result, list | tuple)
            return [_view(of, part) for part in result] if several else _view(of, result)
        shape, steps = (tuple(map(plain, part)) for part in (result.shape, result.stride()))
        value = self._computed(target, operation, (shape, steps, result.dtype), args, options)
        dear = value.cost > (CHEAP if value.early else 0)
        return self.store(value, keep=True) if dear and _readers(node) > 1 else value

    def _computed(
        self, target: Any, operation: str, to: Layout, args: list[Any], options: dict[str, Any]
    ) -> Value:
        if operation in self.kernels:
            return self.kernels[operation](self, to, *args, **options)
        if operation not in ENTRIES or options or len(args) != ENTRIES[operation].count("{"):
            raise DataError(f"C has no word for {operation} of {self.module}", INSTEAD)
        operands = [self.value(argument) for argument in args]
        if all(operand.constant is not None for operand in operands):
            numbers = [torch.tensor(o.constant, dtype=o.dtype) for o in operands]
            return uniform(to[0], to[2], target(*numbers).item())
        again = {o for o in operands if o.cost > CHEAP and size(o.shape) != size(to[0])}
        return combined(operation, *to, [self.held(o) if o in again else o for o in operands])


def name_of(module: str, operation: str) -> str:
    """A name for what a module computes, without the number of its layer."""
    parts = [p for p in re.sub(r"\W+", "_", module).split("_") if p and not p.isdigit()]
    parts = [p for p in parts if p not in ("model", "encoder", "heads")] or ["result"]
    short = {"scaled_dot_product_attention": "mixed", "embedding": "", "linear": ""}
    if not operation.endswith("_norm"):
        parts.append(short.get(operation, operation.strip("_")))
    return "_".join(filter(None, parts))


def nested(loops: Sequence[str], *lines: str) -> list[str]:
    """Lines within loops."""
    outer = [f"{'    ' * depth}{loop}" for depth, loop in enumerate(loops)]
    return [*outer, *(f"{'    ' * len(loops)}{line}" for line in lines)]


def bare(text: str) -> str:
    """An expression without the brackets around all of it."""
    depths = [*accumulate({"(": 1, ")": -1}.get(letter, 0) for letter in text)]
    return text[1:-1] if text[0] == "(" and 0 not in depths[:-1] else text


def _view(of: Value, result: Any) -> Value:
    """The entries of a tensor by other steps; addresses of a tensor and its views are the same."""
    shape, steps = (tuple(map(plain, part)) for part in (result.shape, result.stride()))
    if of.constant is not None:
        return uniform(shape, of.dtype, of.constant)
    return replace(of, shape=shape, steps=steps, offset=plain(result.storage_offset()) + ZERO)


def _is_view(node: Node) -> bool:
    """True if the result has the memory of the first argument, or is a part of several results."""
    if not hasattr(node.target, "_schema"):
        return True
    result, argument = node.meta["val"], node.args[0] if node.args else None
    part = result[0] if isinstance(result, list | tuple) else result
    of = argument.meta["val"] if isinstance(argument, Node) else None
    if not isinstance(part, Tensor) or not isinstance(of, Tensor):
        return False
    return bool(part.untyped_storage()._cdata == of.untyped_storage()._cdata)


def _readers(node: Node) -> int:
    """The number of those that read a result, or a view of it."""
    users = (user for user in node.users if user.op != "output")
    return sum(_readers(user) if _is_view(user) else 1 for user in users)


def _depends(value: Any) -> bool:
    """True if an argument is of a text or its length."""
    return isinstance(value, Value) or (isinstance(value, sympy.Expr) and not value.is_number)


def _concrete(value: Any) -> Any:
    return int(value) if isinstance(value, sympy.Integer) else value


def _key(value: Any) -> Any:
    return id(value) if isinstance(value, Value | Tensor) else value
