"""How a token's place enters the encoder."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import Node, Width


class LearnedPositions(Node):
    """One learned vector a position: ``rows`` of them, the first ``offset`` never read.

    RoBERTa has 514 rows with offset 2 (fairseq LearnedPositionalEmbedding, padding_idx + 1).
    """

    kind: Literal["learned"] = "learned"
    rows: Width
    offset: Annotated[int, Field(ge=0, le=1000)] = 0
    positional = ("rows", "offset")
    bare_number = ("rows",)

    @property
    def room(self) -> int | None:
        """The longest row that has a vector for each of its places."""
        return self.rows - self.offset


class _Untaught(Node):
    """Positions without weights, for rows of any length."""

    @property
    def rows(self) -> int:
        """Rows of a position table: it has none."""
        return 0

    @property
    def offset(self) -> int:
        """The first place."""
        return 0

    @property
    def room(self) -> int | None:
        """The longest row: any."""
        return None


class SinusoidalPositions(_Untaught):
    """Sines, then cosines, of the place (Vaswani et al., 3.5): waves of 2 pi 10,000^(i / half).

    The two stand side by side as in fairseq's SinusoidalPositionalEmbedding, where half - 1 divides
    and the first place is 2.
    """

    kind: Literal["sinusoidal"] = "sinusoidal"


class NoPositions(_Untaught):
    """Embeddings know no places; attention may (Transformer-XL, XLNet)."""

    kind: Literal["none"] = "none"


Positions = Annotated[
    LearnedPositions | SinusoidalPositions | NoPositions, Field(discriminator="kind")
]
"""The closed union of position kinds."""
