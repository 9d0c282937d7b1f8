"""Names of the sizes that the statements of a scope read."""

import ast
import copy
from collections.abc import Mapping, Sequence

from bertc.use.source.expressions import dotted, dotted_statement
from bertc.use.source.recording import TensorValue
from bertc.use.source.sizes import BatchSize


class AxisNames:
    """Axes of the batch that statements read, from inputs that have them."""

    def __init__(self, free: Sequence[TensorValue], names: Mapping[TensorValue, str]) -> None:
        self._free, self._names = free, names
        self._read = dict[str, tuple[str, int]]()

    def statements(self) -> list[ast.stmt]:
        """Assignments of the axes that were read."""
        match sorted(self._read.items()):
            case [("b", (one, 0)), ("s", (other, 1))] if one == other:
                return [dotted_statement(f"b, s = {one}.shape[:2]")]
            case read:
                return [dotted_statement(f"{axis} = {x}.shape[{at}]") for axis, (x, at) in read]

    def written(self, size: BatchSize) -> ast.expr:
        """A size: as that of an input where it is no single axis, else by names of axes."""
        if not isinstance(size.node, ast.Name) and (place := self._place(size)):
            return dotted(f"{place[0]}.shape[{place[1]}]")
        for axis, number in size.sizes.axes.items():
            if any(isinstance(n, ast.Name) and n.id == axis for n in ast.walk(size.node)):
                place = self._place(number)
                assert place, f"no input has the size {axis}"
                self._read.setdefault(axis, place)
        return copy.deepcopy(size.node)

    def _place(self, number: int) -> tuple[str, int] | None:
        """The input and its axis that have a size."""
        for value in self._free:
            if number in value.tensor.shape:
                return self._names[value], value.tensor.shape.index(number)
        return None
