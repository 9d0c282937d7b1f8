"""Batches of fewer rows at first."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import BY_KIND, Node, Tokens

Pieces = tuple[tuple[int, int], ...]
"""(rows of a batch, number of steps), one after the other."""


class FullBatch(Node):
    """Every batch has all rows."""

    kind: Literal["none"] = "none"

    def pieces(self, batch: int, steps: int) -> Pieces:
        return ((batch, steps),)


class RisingBatch(Node):
    """Batches of ``rows``, 2 x ``rows``, ... rows, each size for as many steps as any other.

    After ``over`` steps a batch has all its rows (ModernBERT, ``batch_size_warmup_min_size`` and
    ``_tokens``: sizes are 1, 2, ... micro-batches of each device).
    """

    kind: Literal["rising"] = "rising"
    rows: Annotated[int, Field(ge=1, le=10**12)]
    over: Annotated[int, Field(ge=1, le=10**12)] | Tokens
    positional = ("rows", "over")

    def sizes(self, batch: int) -> range:
        """The numbers of rows before ``batch``."""
        return range(self.rows, batch, self.rows)

    def pieces(self, batch: int, steps: int) -> Pieces:
        """The pieces of ``steps`` steps; those that have no steps are left out."""
        assert not isinstance(self.over, Tokens), "a pass has made them steps"
        sizes = self.sizes(batch)
        ends = [min(steps, -(-n * self.over // len(sizes))) for n in range(1, len(sizes) + 1)]
        begins = [0, *ends]
        pieces = zip((*sizes, batch), (*ends, steps), begins, strict=True)
        return tuple((rows, end - begin) for rows, end, begin in pieces if end > begin)


BatchWarmup = Annotated[FullBatch | RisingBatch, BY_KIND]
FULL_BATCH = FullBatch()
