"""Sizes of batches, by the names of their axes."""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from torch import SymInt

from bertc.use.source.expressions import code, dotted
from bertc.use.source.recording import AXIS_SIZES, TensorValue


class SizeNames:
    """The sizes that the statements of a scope read, from inputs that have names."""

    def __init__(self, free: Sequence[TensorValue], names: Mapping[TensorValue, str]) -> None:
        self._free, self._names = free, names
        self.used: dict[str, ast.expr] = {}

    def statements(self) -> list[ast.stmt]:
        """Assignments of the axes that were used."""
        shapes = {code(size).rpartition("[")[0] for size in self.used.values()}
        if len(self.used) == 2 and len(shapes) == 1:
            return [ast.parse(f"b, s = {shapes.pop()}[:2]").body[0]]
        return [ast.Assign([ast.Name(axis)], size) for axis, size in sorted(self.used.items())]

    def written(self, size: SymInt | int) -> ast.expr:
        """A size of a batch, by the names of its axes."""
        written = str(size.node.expr if isinstance(size, SymInt) else size)
        if same := self._shape_of(written):
            return same
        if isinstance(size, int):
            written = (
                f"{AXIS_SIZES['b']} * {size // AXIS_SIZES['b']}"
                if size > AXIS_SIZES["b"]
                else written
            )
        else:
            for symbol in size.node.expr.free_symbols:
                axis = _axis_of(symbol, size)
                self.used.setdefault(axis, self._axis(axis))
                written = written.replace(str(symbol), axis)
        if str(AXIS_SIZES["b"]) in written:
            self.used.setdefault("b", self._axis("b"))
            written = written.replace(str(AXIS_SIZES["b"]), "b")
        return dotted(written)

    def _shape_of(self, written: str) -> ast.expr | None:
        """A size that an input has, and that is no single axis."""
        for value in self._free:
            for axis, size in enumerate(value.tensor.shape):
                single = _hint(size) in AXIS_SIZES.values()
                if str(size) == written and not single:
                    shape = ast.Attribute(ast.Name(self._names[value]), "shape")
                    return ast.Subscript(shape, ast.Constant(axis))
        return None

    def _axis(self, name: str) -> ast.expr:
        """The size of an axis, of an input that has it."""
        for value in self._free:
            for axis, size in enumerate(value.tensor.shape):
                if _hint(size) == AXIS_SIZES[name]:
                    shape = ast.Attribute(ast.Name(self._names[value]), "shape")
                    return ast.Subscript(shape, ast.Constant(axis))
        raise AssertionError(f"no input has the size {name}")


def _hint(size: SymInt | int) -> int:
    if isinstance(size, SymInt):
        expression = size.node.expr
        return int(size.node.hint) if expression.is_symbol or expression.is_Integer else -1
    return size


def _axis_of(symbol: Any, size: SymInt) -> str:
    hint = int(size.node.shape_env.backed_var_to_val[symbol])
    return next(name for name, value in AXIS_SIZES.items() if value == hint)
