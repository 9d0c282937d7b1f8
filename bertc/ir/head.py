"""How hidden states become scores over the vocabulary, whatever asks for them.

The table is the encoder's token table: n states of width h meet it in its own width e.
"""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import (
    Axis,
    Drawn,
    Kept,
    Matmul,
    Node,
    Weight,
    affine,
    layer_norm,
)


class TransformHead(Node):
    """Dense, activation and norm, then the tied table and a bias (BERT, modeling.py)."""

    kind: Literal["transform"] = "transform"

    def weights(
        self, name: str, hidden: int, embedding: int, vocab: int, init: Drawn
    ) -> tuple[Weight, ...]:
        """Dense (hidden -> embedding), norm, and a bias over the vocabulary."""
        narrow: tuple[Axis, int] = ("embedding", embedding)
        return (
            *affine(f"{name}.dense", narrow, ("hidden", hidden), init, "head"),
            *layer_norm(f"{name}.norm", *narrow, part="head"),
            affine(name, ("vocab", vocab), narrow, init, "head")[1],
        )

    def matmuls(self, hidden: int, embedding: int, vocab: int, rows: int) -> tuple[Matmul, ...]:
        """The transform and the projection onto the vocabulary."""
        return (
            Matmul("head", rows, hidden, embedding),
            Matmul("head", rows, embedding, vocab),
        )

    def kept(self, hidden: int, embedding: int, vocab: int, rows: int) -> Kept:
        """States through the transform, their scores, and a sum a row."""
        return Kept(values=rows * (hidden + 3 * embedding + vocab), fp32=rows)


class LinearHead(Node):
    """The tied table alone, with a bias or without (XLM, XLNet; GPT-2 has none).

    Where the table is narrower than the states, a dense map comes first.
    """

    kind: Literal["linear"] = "linear"
    bias: bool = True

    def weights(
        self, name: str, hidden: int, embedding: int, vocab: int, init: Drawn
    ) -> tuple[Weight, ...]:
        """The map where the widths differ, and the bias over the vocabulary if there is one."""
        narrow: tuple[Axis, int] = ("embedding", embedding)
        dense = affine(f"{name}.dense", narrow, ("hidden", hidden), init, "head")
        bias = affine(name, ("vocab", vocab), narrow, init, "head")[1:]
        return (*(dense if embedding != hidden else ()), *(bias if self.bias else ()))

    def matmuls(self, hidden: int, embedding: int, vocab: int, rows: int) -> tuple[Matmul, ...]:
        """The projection onto the vocabulary, behind the map where there is one."""
        dense = (Matmul("head", rows, hidden, embedding),) if embedding != hidden else ()
        return (*dense, Matmul("head", rows, embedding, vocab))

    def kept(self, hidden: int, embedding: int, vocab: int, rows: int) -> Kept:
        """States, mapped where the widths differ, their scores, and a sum a row."""
        mapped = embedding if embedding != hidden else 0
        return Kept(values=rows * (hidden + mapped + vocab), fp32=rows)


Head = Annotated[TransformHead | LinearHead, Field(discriminator="kind")]
"""The closed union of heads over the vocabulary."""
