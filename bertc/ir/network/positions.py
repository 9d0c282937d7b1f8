"""Position kinds with their settings and weights; ``nn.positions`` builds them."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import Axis, Drawn, Node, Normal, Weight, Width


class LearnedPositions(Node):
    """A table of position embeddings: ``rows`` rows, of which the first ``offset`` are unused.

    RoBERTa has 514 rows with offset 2 (fairseq LearnedPositionalEmbedding, padding_idx + 1).
    """

    kind: Literal["learned"] = "learned"
    rows: Width
    offset: Annotated[int, Field(ge=0, le=1000)] = 0
    positional = ("rows", "offset")
    bare_number = ("rows",)

    def weights(self, name: str, width: tuple[Axis, int], init: Drawn) -> tuple[Weight, ...]:
        """The table, initialised by ``initializer=normal(positions=...)`` if that is set."""
        axis, wide = width
        if isinstance(init, Normal) and init.positions:
            init = Normal(std=init.positions)
        axes: tuple[Axis, Axis] = ("positions", axis)
        return (Weight(f"{name}.weight", (self.rows, wide), axes, init, "embeddings", "table"),)

    @property
    def room(self) -> int | None:
        """Maximum row length in tokens."""
        return self.rows - self.offset


class _Unlearned(Node):
    """Positions without weights, for rows of any length."""

    def weights(self, name: str, width: tuple[Axis, int], init: Drawn) -> tuple[Weight, ...]:
        """No weights."""
        return ()

    @property
    def rows(self) -> int:
        """Rows of the position table: 0."""
        return 0

    @property
    def offset(self) -> int:
        """The first position: 0."""
        return 0

    @property
    def room(self) -> int | None:
        """Maximum row length: None, unlimited."""
        return None


class SinusoidalPositions(_Unlearned):
    """Sines, then cosines, of the position (Vaswani et al., 3.5): waves of 2 pi 10,000^(i / half).

    Sines and cosines are concatenated as in fairseq's SinusoidalPositionalEmbedding, which divides
    by half - 1 and starts at position 2.
    """

    kind: Literal["sinusoidal"] = "sinusoidal"


class NoPositions(_Unlearned):
    """No position embeddings; attention may use distances (Transformer-XL, XLNet)."""

    kind: Literal["none"] = "none"


Positions = Annotated[
    LearnedPositions | SinusoidalPositions | NoPositions, Field(discriminator="kind")
]
"""The closed union of position kinds."""
