"""Masked language models: of text (``mlm``, ``mntp``), translations (``tlm``), spans (``sbo``)."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field

from bertc.base.diagnostics import DataError
from bertc.ir.base import Width
from bertc.ir.terms.heads import BoundaryHead
from bertc.ir.terms.masking import Masks
from bertc.ir.terms.node import LanguageModel, RowShape, StatesRead, TextTerm


class Masked(Masks, LanguageModel):
    """Mask tokens of the input and predict them."""

    positional = ("p", "unit")
    fills = "masks"

    @property
    def head_name(self) -> str:
        return "mlm"

    @property
    def states(self) -> StatesRead:
        """States of a mask decoder, where there is one."""
        return StatesRead("mlm", rank=0, decoded=True)

    @property
    def masks(self) -> Self:
        return self


class Mlm(Masked):
    """Predict masked tokens (BERT 3.1) in monolingual rows."""

    kind: Literal["mlm"] = "mlm"
    shorthand = "unit"


class Tlm(Masked):
    """Predict masked tokens of a sentence and its translation (XLM 3.3), with mlm's head.

    Rows are ``pairs``. Positions restart at 0 in the translation.
    """

    kind: Literal["tlm"] = "tlm"
    translations = True
    system = "xlm"


class Mntp(Masked):
    """Predict masked tokens, each from the state before it (BehnamGhader et al. 2024, 2.2).

    It has mlm's head, whose labels move one to the left, so that a network reads as causal ones do
    (GPT-BERT, Charpentier and Samuel 2024). A token that is first in its row has no prediction.
    """

    kind: Literal["mntp"] = "mntp"
    shorthand = "unit"
    ahead = True

    @property
    def states(self) -> StatesRead:
        """States of the encoder: a mask decoder has none before a mask."""
        return StatesRead("mntp", rank=0)


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
