"""Sizes of batches: numbers that say how they are computed from the numbers of rows and tokens."""

import operator
from collections.abc import Callable, Collection
from typing import Any

BATCH_AXES = ("b", "s")
"""Names of the axes of a batch: rows and tokens."""
LIKELY_ROWS = (1009, 1013, 1019, 1021)
ARITHMETIC = {"add": ("+", 0), "sub": ("-", 0), "mul": ("*", 1), "floordiv": ("//", 1)}
"""Operations by the names of their methods, each with the number on its right that changes none."""


class BatchSize(int):
    """A size that depends on the batch, and the expression for it."""

    node: str
    sizes: "BatchSizes"

    def __neg__(self) -> "BatchSize":
        return self.sizes.make(-int(self), f"(-{self.node})")


def _operation(name: str, *, turned: bool) -> Callable[[BatchSize, Any], Any]:
    (sign, neutral), operate = ARITHMETIC[name], getattr(operator, name)

    def apply(self: BatchSize, operand: Any) -> Any:
        if not isinstance(operand, int):
            return NotImplemented
        if operand == neutral and (not turned or sign in "+*"):
            return self
        left, right = (operand, self) if turned and name != "add" else (self, operand)
        text = f"({self.sizes.node(left)} {sign} {self.sizes.node(right)})"
        return self.sizes.make(operate(int(left), int(right)), text)

    return apply


for _name in ARITHMETIC:
    setattr(BatchSize, f"__{_name}__", _operation(_name, turned=False))
    setattr(BatchSize, f"__r{_name}__", _operation(_name, turned=True))


def _size_of(size: int) -> tuple[int, ...]:
    """A size, and those that torch computes from it."""
    return size, size - 1, size + 1, 2 * size - 1


class BatchSizes:
    """The sizes of a batch: numbers of rows and tokens that no other size of a program has."""

    def __init__(self, numbers: Collection[int], most: int) -> None:
        """Choose numbers unlike those of a program, of tokens up to ``most``."""
        self._numbers, self._known = numbers, dict[int, BatchSize]()
        self.rows = next(n for n in LIKELY_ROWS if all(x % n or not x for x in numbers))
        likely = (*range(11, most + 1), *range(10, 1, -1))
        free = (n for n in likely if not {*_size_of(n)} & {*numbers})
        self.tokens = next(free, 11)
        self.axes = dict(zip(BATCH_AXES, (self.rows, self.tokens), strict=True))
        for axis, number in self.axes.items():
            _size_of(self.make(number, axis))

    def make(self, number: int, node: str) -> BatchSize:
        """A size with its expression, which tensors of that size have from now on."""
        size = BatchSize(number)
        size.node, size.sizes = node, self
        if number not in self._numbers and number >= self.tokens - 1:
            self._known.setdefault(number, size)
        return size

    def of(self, number: int) -> int:
        """The size of a tensor's axis; another number as it is."""
        if number in self._known:
            return self._known[number]
        count, rest = divmod(number, self.rows)
        return self._known[self.rows] * self.of(count) if count and not rest else number

    def node(self, number: int) -> str:
        """The expression of a number that may be a size."""
        size = self.of(number) if number % self.rows == 0 else number
        return size.node if isinstance(size, BatchSize) else f"({size})"
