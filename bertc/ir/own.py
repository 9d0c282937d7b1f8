"""Parts of the user's own: a class of a Python file, and the recording of what it has and does.

``model.recorder`` makes the recording once, in a separate process. It is part of the program, so
that estimates need no torch, and a run folder is whole without the file.
"""

from collections.abc import Iterator, Mapping
from operator import not_
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import Constructed, Node, Part, Role, Weight

OwnPlace = Literal[
    "ffn", "attention", "norm", "residual", "objective", "unit", "activation", "positions",
    "heads", "body", "optimizer", "schedule",
]  # fmt: skip
Size = Literal["hidden", "heads", "head_dim", "layer", "vocab", "pieces"]
"""Sizes that a class gets for arguments of these names; ``pieces``: a list, the text of each id."""
Read = Literal["tokens", "inputs", "words", "real"]
"""Tensors that a term or unit gets if its forward has arguments with these names."""
_Scaled = tuple[float, int, int]
"""``factor x rows^a x tokens^b``, with both powers."""


class Work(Node):
    """A recorded operation; ``does`` is a function, or another operation, with its numbers."""

    does: Literal["product", "attention", "saved"] | op.Function
    numbers: tuple[_Scaled, ...]
    maps: bool = False

    def at(self, rows: int, tokens: int) -> op.Operation:
        """Scale the operation to rows and tokens."""
        n = [round(factor * rows**a * tokens**b) for factor, a, b in self.numbers]
        match self.does:
            case "product":
                return op.Product(n[0], n[1], n[2], n[3], maps=int(self.maps), keeps_rows=False)
            case "attention":
                return op.Attention(n[0], n[1], n[2], n[3], n[4], bool(n[5]), "pairs")
            case "saved":
                return op.Recorded((), n[0], n[1])
            case function:
                return op.Pointwise(function, n[0])


class Recording(Node):
    """Weights, by name and shape, and operations of a class that is built with these ``sizes``.

    ``width`` is that of the states, where it differs from place to place.
    """

    sizes: tuple[int, ...]
    width: Annotated[int, Field(exclude_if=not_)] = 0
    weights: tuple[tuple[str, tuple[int, ...]], ...]
    works: tuple[Work, ...]


class OwnClass(Node):
    """A class of a Python file with that file's text, and the arguments of its constructor."""

    code: Annotated[str, Field(min_length=3, max_length=500)]
    arguments: tuple[tuple[str, bool | int | float | str], ...] = ()
    source: str = ""
    positional = ("code",)
    others = "arguments"
    looked_up: ClassVar[tuple[str, ...]] = ("source",)


class Own(OwnClass):
    """A part of a network: ``own("mine.py:Experts", experts=4)``.

    ``asks`` are the sizes that its constructor has arguments for, ``reads`` the tensors that its
    forward does. ``packs`` and ``causal``: a token reads no other document of its row, and no later
    token, where the mask says so.
    """

    asks: tuple[Size, ...] = ()
    reads: Annotated[tuple[Read, ...], Field(exclude_if=not_)] = ()
    packs: bool = True
    causal: bool = True
    recordings: tuple[Recording, ...] = ()
    layer: Annotated[int, Field(exclude_if=(-1).__eq__)] = -1
    looked_up = (*OwnClass.looked_up, "asks", "reads", "packs", "causal", "recordings", "layer")

    def __eq__(self, other: object) -> bool:
        """Equality in which 1, 1.0 and true are three arguments."""
        arguments = getattr(other, "arguments", None)
        return repr(self.arguments) == repr(arguments) and super().__eq__(other)

    def at(self, layer: int) -> Self:
        """The part of one layer; layers differ if the class has an argument for their number."""
        return self.model_copy(update={"layer": layer}) if "layer" in self.asks else self

    def recorded(self, sizes: Mapping[str, int]) -> Recording:
        """The recording with these sizes, of which it needs those that it asks for."""
        if not self.recordings:  # it was refused
            return Recording(sizes=(), weights=(), works=())
        numbers, widths = tuple(self.chosen(sizes).values()), (0, sizes["hidden"])
        return next(r for r in self.recordings if r.sizes == numbers and r.width in widths)

    def chosen(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The sizes that it asks for, by name."""
        return {name: self.layer if name == "layer" else sizes[name] for name in self.asks}

    def own_weights(self, name: str, sizes: Mapping[str, int], part: Part) -> Iterator[Weight]:
        """Weights with first values as the constructor sets them."""
        for own_name, shape in self.recorded(sizes).weights:
            init = Constructed(part=self, sizes=tuple(self.chosen(sizes).values()), name=own_name)
            role: Role = "matrix" if len(shape) > 1 else "norm"
            axes: Any = ("own",) * len(shape)
            yield Weight(f"{name}.{own_name}", shape, axes, init, part, role)

    def own_operations(self, sizes: Mapping[str, int], rows: int, tokens: int) -> op.Operations:
        """The operations on states (rows, tokens, hidden)."""
        return tuple(work.at(rows, tokens) for work in self.recorded(sizes).works)


def sizes_of(widths: op.Widths) -> dict[str, int]:
    """The sizes of a layer by name."""
    return {"hidden": widths.hidden, "heads": widths.heads, "head_dim": widths.head_dim}
