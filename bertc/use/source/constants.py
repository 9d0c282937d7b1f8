"""Numbers of a program that have a name in its file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bertc.ir.network.encoder import Encoder
from bertc.ir.network.positions import RotaryPositions
from bertc.ir.program.resolved import Resolved
from bertc.use.source.expressions import literal

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
    sizes = {("vocab", body.vocab_size): "VOCAB", ("hidden", body.hidden): "HIDDEN"}
    if body.embedding != body.hidden:
        values["EMBEDDING"] = body.embedding
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
        sizes["ffn", first.ffn] = "FFN"
        sizes["positions", body.positions.rows] = "POSITIONS"
        sizes["segments", body.segments] = "SEGMENTS"
    return Constants(sizes, values)


def declare_constants(constants: Constants, text: str) -> list[str]:
    """Lines of the constants that a text reads."""
    read = [name for name in constants.values if re.search(rf"\b{name}\b", text)]
    return [f"{name} = {constants.values[name]!r}" for name in read]
