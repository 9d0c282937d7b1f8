"""Tensors as expressions of C: of an address in memory, or computed where they are read."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any

import sympy
import torch
from torch import SymInt

from bertc import DataError

Index = Any
"""An expression of sympy: sums of axes and of ``n``, the tokens of a row, times whole numbers."""
Shape = tuple[Index, ...]
N = sympy.Symbol("n", integer=True, positive=True)
ZERO = sympy.Integer(0)
SIZES = dict[Index, Index]()
"""The sizes of axes: an axis is below its size."""
CHEAP, DEAR = 8, 50
"""Operations that are rather repeated than stored, and those that a function counts as."""
ENTRIES = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "div": "{} / {}", "neg": "-{}",
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "le": "{} <= {}", "gt": "{} > {}",
    "ge": "{} >= {}", "__and__": "{} && {}", "__or__": "{} || {}", "bitwise_not": "!{}",
    "where": "{} ? {} : {}", "addcmul": "{} + {} * {}", "abs": "fabsf({})", "clone": "{}",
    "relu": "larger({}, 0.0f)", "maximum": "larger({}, {})", "minimum": "smaller({}, {})",
    "sqrt": "sqrtf({})", "rsqrt": "1.0f / sqrtf({})", "exp": "exp_of({})", "exp2": "exp2f({})",
    "log": "logf({})", "log1p": "log1pf({})", "sin": "sinf({})", "cos": "cosf({})",
    "pow": "powf({}, {})", "tanh": "tanh_of({})", "sigmoid": "sigmoid({})", "silu": "silu({})",
    "gelu": "gelu({})", "gelu_tanh": "gelu_tanh({})",
}  # fmt: skip
"""ATen's operations on every entry by itself."""
WHOLE = {"abs": "labs({})", "maximum": "larger_whole({}, {})", "minimum": "smaller_whole({}, {})"}
"""Operations that are another function for whole numbers."""
INSTEAD = "bertc export --onnx FOLDER may have it; bertc predict, embed and fill do"
NEUTRAL = {"__and__": 1, "__or__": 0, "mul": 1, "add": 0}
DECIDING = {"__and__": 0, "__or__": 1, "mul": 0}


def c_text(index: Index) -> str:
    """An index as C, its largest steps first."""
    index = sympy.sympify(index)
    if index.is_Add:
        order = {t: (len(t.free_symbols), t.as_coeff_Mul()[0], str(t)) for t in index.args}
        terms = sorted(index.args, key=lambda term: order[term], reverse=True)
        return " + ".join(map(c_text, terms)).replace(" + -", " - ")
    if index.is_Mul:
        return "*".join(map(bracketed, index.args))
    if index.is_Pow:
        return "*".join([bracketed(index.base)] * int(index.exp))
    return str(index.name if index.is_Symbol else index)


def bracketed(index: Index) -> str:
    """An index as C, as an operand."""
    return f"({c_text(index)})" if sympy.sympify(index).is_Add else c_text(index)


def axis(name: str, size: Index) -> Index:
    """A variable from 0 to below a size; of size 1 it is 0."""
    if size == 1:
        return ZERO
    variable = sympy.Dummy(name, integer=True, nonnegative=True)
    SIZES[variable] = size
    return variable


def read_index(text: str) -> Index:
    """An index that a C expression reads."""
    return sympy.Symbol(text, integer=True, nonnegative=True)


def divided(index: Index, by: Index) -> tuple[Index, Index]:
    """Quotient and rest, as simple as the sizes of axes allow."""
    terms = sympy.Add.make_args(sympy.expand(index))
    quotient = sum((t / by for t in terms if sympy.cancel(t / by).is_integer), ZERO)
    rest = sympy.expand(index - quotient * by)
    largest = rest.xreplace({a: SIZES[a] - 1 for a in rest.free_symbols & SIZES.keys()})
    if sympy.expand(by - 1 - largest).is_nonnegative:
        return quotient, rest
    times, left = (read_index(f"({bracketed(rest)} {sign} {bracketed(by)})") for sign in "/%")
    SIZES[left] = by
    if largest.is_number:
        SIZES[times] = largest // by + 1
    return quotient + times, left


def size(shape: Sequence[Index]) -> Index:
    """The number of entries."""
    return sympy.expand(reduce(mul, shape, ZERO + 1))


def dense(shape: Shape) -> Shape:
    """The steps of axes in memory without gaps."""
    return tuple(size(shape[place + 1 :]) for place in range(len(shape)))


def literal(number: float, *, floats: bool) -> str:
    """A number in C."""
    if not floats:
        return str(int(number))
    if math.isinf(number):
        return "INFINITY" if number > 0 else "-INFINITY"
    text = f"{float(number):.9g}"
    text += "f" if any(letter in text for letter in ".e") else ".0f"
    return f"({text})" if number < 0 else text


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor: the steps of its axes from address to address, and an address's entry in C.

    Those in memory have a ``buffer``; of others addresses only say which entry is meant, so that
    a view of either is other steps. ``early``: the same in all rows of ``n`` tokens. ``constant``:
    all entries are this. ``cost``: operations of an entry.
    """

    shape: Shape
    steps: Shape
    dtype: torch.dtype
    entry: Callable[[Index], str]
    offset: Index = ZERO
    buffer: str = ""
    cost: int = 0
    early: bool = True
    constant: float | None = None

    @property
    def floats(self) -> bool:
        """True for numbers with a fraction, false for whole ones and truths."""
        return self.dtype.is_floating_point

    def address(self, indices: Sequence[Index]) -> Index:
        """The place of an entry; of more indices than axes the last count."""
        last = indices[len(indices) - len(self.shape) :]
        parts = (i * p for i, p, n in zip(last, self.steps, self.shape, strict=True) if n != 1)
        return sympy.expand(self.offset + sum(parts, ZERO))

    def at(self, indices: Sequence[Index], *, floats: bool = False) -> str:
        """An entry, as an operand of such a kind."""
        if self.constant is not None:
            return literal(self.constant, floats=floats or self.floats)
        text = self.entry(self.address(indices))
        return f"(float){text}" if floats and not self.floats else text

    @property
    def pointer(self) -> str:
        """The place of its first entry in memory."""
        return self.buffer if self.offset == 0 else f"{self.buffer} + {c_text(self.offset)}"


def uniform(shape: Shape, dtype: torch.dtype, number: float) -> Value:
    """A tensor of equal entries."""
    return Value(shape, dense(shape), dtype, lambda _: "", constant=number)


def computed(
    shape: Shape, steps: Shape, dtype: torch.dtype, read: Callable[[Shape], str], operands: Any,
    cost: int,
) -> Value:  # fmt: skip
    """A tensor whose entries are read from operands by their indices."""

    def entry(address: Index) -> str:
        indices = [ZERO] * len(shape)
        for place in sorted(range(len(shape)), key=lambda p: (-_rank(steps[p]), p)):
            if shape[place] != 1:
                indices[place], address = divided(address, steps[place])
        return read((*indices,))

    early = all(operand.early for operand in operands)
    return Value(shape, steps, dtype, entry, cost=cost, early=early)


def _rank(step: Index) -> int:
    """The size of a step in rows of very many tokens."""
    return int(step.subs(N, 1 << 40)) if step.free_symbols else int(step)


def combined(
    name: str, shape: Shape, steps: Shape, dtype: torch.dtype, operands: Sequence[Value]
) -> Value:
    """An operation on every entry by itself; one that changes nothing is an operand."""
    for first, second in (operands, operands[::-1]) if name in NEUTRAL else ():
        known = first.constant
        if known is not None and known == DECIDING.get(name) and not first.floats:
            return uniform(shape, dtype, known)
        if known == NEUTRAL[name] and (second.shape, second.dtype) == (shape, dtype):
            return second
    if name == "where" and operands[0].constant is not None:
        return combined("clone", shape, steps, dtype, [operands[1 if operands[0].constant else 2]])
    truths = int(name == "where")
    floats = dtype.is_floating_point or any(operand.floats for operand in operands[truths:])
    template = (ENTRIES if floats else ENTRIES | WHOLE)[name]

    def read(indices: Shape) -> str:
        kinds = [floats and number >= truths for number in range(len(operands))]
        texts = [o.at(indices, floats=kind) for o, kind in zip(operands, kinds, strict=True)]
        bare = name == "clone" or (template[-1] == ")" and template[0] != "1")
        return (template if bare else f"({template})").format(*texts)

    calls = "(" in template and name not in ("relu", *WHOLE)
    cost = sum(operand.cost for operand in operands) + (DEAR if calls else 1)
    return computed(shape, steps, dtype, read, operands, cost)


def plain(value: Any) -> Any:
    """Sizes as expressions of ``n``, whole numbers alike, and the rest as it is."""
    if isinstance(value, SymInt):
        length = value.node.expr.xreplace(dict.fromkeys(value.node.expr.free_symbols, N))
        for division in length.atoms(sympy.Function):  # of torch, rounded down
            exact = sympy.cancel(division.args[0] / division.args[1])
            if sympy.denom(exact) != 1:
                raise DataError(f"C has no word for a size of {c_text(length)}", INSTEAD)
            length = length.xreplace({division: exact})
        return length
    return sympy.Integer(value) if type(value) is int else value
