"""Names of the sizes that the statements of a scope read."""

import re
from collections.abc import Mapping, Sequence

from bertc.use.source.recording import TensorValue
from bertc.use.source.sizes import BatchSize


class AxisNames:
    """Axes of the batch that statements read, from inputs that have them."""

    def __init__(self, free: Sequence[TensorValue], names: Mapping[TensorValue, str]) -> None:
        self._free, self._names = free, names
        self._read = dict[str, tuple[str, int]]()

    def statements(self) -> list[str]:
        """Assignments of the axes that were read."""
        match sorted(self._read.items()):
            case [("b", (one, 0)), ("s", (other, 1))] if one == other:
                return [f"b, s = {one}.shape[:2]"]
            case read:
                return [f"{axis} = {name}.shape[{at}]" for axis, (name, at) in read]

    def written(self, size: BatchSize) -> str:
        """A size: as that of an input where it is no single axis, else by names of axes."""
        if not size.node.isidentifier() and (place := self._place(size)):
            return f"{place[0]}.shape[{place[1]}]"
        for axis, number in size.sizes.axes.items():
            if re.search(rf"\b{axis}\b", size.node):
                place = self._place(number)
                assert place, f"no input has the size {axis}"
                self._read.setdefault(axis, place)
        return size.node

    def _place(self, number: int) -> tuple[str, int] | None:
        """The input and its axis that have a size."""
        for value in self._free:
            if number in value.tensor.shape:
                return self._names[value], value.tensor.shape.index(number)
        return None
