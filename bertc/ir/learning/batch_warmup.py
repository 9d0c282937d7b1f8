"""Batches of fewer rows at first."""

from operator import not_
from typing import Annotated, Literal, Self

from pydantic import Field

from bertc.ir.base import BY_KIND, Count, Node, Tokens

Pieces = tuple[tuple[int, int], ...]
"""(rows of a batch, number of steps), one after the other."""
MOST_STAGES = 100
"""Stages that a run may have, each size of their batches counted."""


class FullBatch(Node):
    """Every batch has all rows."""

    kind: Literal["none"] = "none"

    def rises(self, batch: int) -> int:
        return 0

    def pieces(self, batch: int, steps: int) -> Pieces:
        return ((batch, steps),)


class RisingBatch(Node):
    """Batches of ``rows`` rows, then of ``by`` more, ..., each size for as many steps as any other.

    After ``over`` steps, or that share of them, a batch has all its rows (ModernBERT,
    ``batch_size_warmup_min_size`` and ``_tokens``: sizes are 1, 2, ... micro-batches of a device;
    cramming, ``batch_size_ramp``; GPT-BERT, ``batch_reduction``). ``by`` 0: by ``rows``.
    """

    kind: Literal["rising"] = "rising"
    rows: Annotated[int, Field(ge=1, le=10**12)]
    over: Annotated[int, Field(ge=1, le=10**12)] | Annotated[float, Field(gt=0, le=1)] | Tokens
    by: Annotated[Count, Field(exclude_if=not_)] = 0
    positional = ("rows", "over", "by")

    def sizes(self, batch: int) -> range:
        """The numbers of rows before ``batch``."""
        return range(self.rows, batch, self.by or self.rows)

    def rises(self, batch: int) -> int:
        """The number of those that have steps."""
        assert isinstance(self.over, int), "a pass has made them steps"
        return min(len(self.sizes(batch)), self.over)

    def in_steps(self, over: float) -> Self:
        """The same over this number of steps."""
        return self.model_copy(update={"over": max(1, round(over))})

    def pieces(self, batch: int, steps: int) -> Pieces:
        """The pieces of ``steps`` steps; those that have no steps are left out.

        More than a run may have, which are refused, are fewer here.
        """
        count, sizes = min(self.rises(batch), MOST_STAGES), self.sizes(batch)
        assert isinstance(self.over, int), "a pass has made them steps"
        ends = [min(steps, -(-n * self.over // count)) for n in range(1, count + 1)]
        begins = [0, *ends]
        rows = (*(sizes[n * len(sizes) // count] for n in range(count)), batch)
        pieces = zip(rows, (*ends, steps), begins, strict=True)
        return tuple((rows, end - begin) for rows, end, begin in pieces if end > begin)


BatchWarmup = Annotated[FullBatch | RisingBatch, BY_KIND]
FULL_BATCH = FullBatch()
