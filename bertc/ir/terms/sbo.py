"""The span boundary objective (``sbo``)."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import Width
from bertc.ir.terms.heads import BoundaryHead
from bertc.ir.terms.node import FP32, LONG, RowShape, TextTerm


class Sbo(TextTerm):
    """Predict the tokens of a masked span from the two around it and their place (SpanBERT 3.2).

    Needs an ``mlm`` term with span units. At most ``max_targets`` tokens of a span are predicted.
    """

    kind: Literal["sbo"] = "sbo"
    max_targets: Annotated[int, Field(ge=1, le=200)] = 15  # SpanBERT README --max-pair-targets 15
    position_dim: Width = 200  # SpanBERT --pair-positional-embedding-size
    extra_pair: bool = True  # divide by pairs + 1, as spanbert_loss.py does
    positional = ("max_targets",)
    scored = "tokens"
    predicts_masked = True
    output_rank = 1

    @property
    def head_node(self) -> BoundaryHead:
        """Two layers over both boundaries and the place between them."""
        return BoundaryHead(self.max_targets, self.position_dim)

    @property
    def divisor_extra(self) -> int:
        """1 with ``extra_pair``."""
        return int(self.extra_pair)

    def head_rows(self, rows: RowShape) -> int:
        """One for each hidden token."""
        return rows.predictions

    def outputs(self, rows: RowShape) -> int | None:
        """The states before and after the span of each."""
        return 2 * rows.predictions

    def target_bytes(self, rows: RowShape) -> int:
        """The tokens around a span, places in it, and weights."""
        return rows.predictions * (3 * LONG + FP32)
