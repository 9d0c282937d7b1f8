"""Position kinds: their settings and weights; ``nn.positions`` has their modules."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import Axis, Drawn, Node, Normal, Weight, Width


class LearnedPositions(Node):
    """One learned vector a position: ``rows`` of them, the first ``offset`` never read.

    RoBERTa has 514 rows with offset 2 (fairseq LearnedPositionalEmbedding, padding_idx + 1).
    """

    kind: Literal["learned"] = "learned"
    rows: Width
    offset: Annotated[int, Field(ge=0, le=1000)] = 0
    positional = ("rows", "offset")
    bare_number = ("rows",)

    def weights(self, name: str, width: tuple[Axis, int], init: Drawn) -> tuple[Weight, ...]:
        """The table, drawn as ``initializer=normal(positions=...)`` says where it says so."""
        axis, wide = width
        if isinstance(init, Normal) and init.positions:
            init = Normal(std=init.positions)
        axes: tuple[Axis, Axis] = ("positions", axis)
        return (Weight(f"{name}.weight", (self.rows, wide), axes, init, "embeddings", "table"),)

    @property
    def room(self) -> int | None:
        """The longest row that has a vector for each of its positions."""
        return self.rows - self.offset


class _Unlearned(Node):
    """Positions without weights, for rows of any length."""

    def weights(self, name: str, width: tuple[Axis, int], init: Drawn) -> tuple[Weight, ...]:
        """None."""
        return ()

    @property
    def rows(self) -> int:
        """Rows of a position table: it has none."""
        return 0

    @property
    def offset(self) -> int:
        """The first position."""
        return 0

    @property
    def room(self) -> int | None:
        """The longest row: any."""
        return None


class SinusoidalPositions(_Unlearned):
    """Sines, then cosines, of the place (Vaswani et al., 3.5): waves of 2 pi 10,000^(i / half).

    The two stand side by side as in fairseq's SinusoidalPositionalEmbedding, where half - 1 divides
    and the first place is 2.
    """

    kind: Literal["sinusoidal"] = "sinusoidal"


class NoPositions(_Unlearned):
    """No positions in the embeddings; attention may have some (Transformer-XL, XLNet)."""

    kind: Literal["none"] = "none"


Positions = Annotated[
    LearnedPositions | SinusoidalPositions | NoPositions, Field(discriminator="kind")
]
"""The closed union of position kinds."""
