"""The span boundary objective (``sbo``)."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field

from bertc.base.diagnostics import DataError
from bertc.ir.base import Width
from bertc.ir.terms.heads import BoundaryHead
from bertc.ir.terms.node import RowShape, StatesRead, TextTerm


class Sbo(TextTerm):
    """Predict tokens of a masked span from its neighbours and their position (SpanBERT 3.2).

    Needs an ``mlm`` term with span units. At most ``max_targets`` tokens of a span are predicted.
    """

    kind: Literal["sbo"] = "sbo"
    max_targets: Annotated[int, Field(ge=1, le=200)] = 15  # SpanBERT README --max-pair-targets 15
    position_dim: Width = 200  # SpanBERT --pair-positional-embedding-size
    extra_pair: bool = True  # divide by pairs + 1, as spanbert_loss.py does
    positional = ("max_targets",)
    baseline = "token frequencies"
    system = "spanbert"

    @classmethod
    def of_head(cls, shapes: Mapping[str, tuple[int, ...]]) -> Self:
        """With a table of places as large as the head's."""
        shape = shapes.get("heads.sbo.position.weight", ())
        try:
            rows, width = shape
            return cls(max_targets=rows, position_dim=width)
        except ValueError:
            raise DataError(
                f"heads.sbo.position.weight has shape {list(shape)}",
                help="a boundary head has at most 200 positions",
            ) from None

    @property
    def head_node(self) -> BoundaryHead:
        return BoundaryHead(self.max_targets, self.position_dim)

    @property
    def states(self) -> StatesRead:
        return StatesRead(self.head_name, rank=1, of_spans=True)

    def head_rows(self, rows: RowShape) -> int:
        return rows.predictions

    def outputs(self, rows: RowShape) -> int | None:
        """The states before and after each token's span."""
        return 2 * rows.predictions
