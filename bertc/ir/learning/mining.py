"""Sources of the negatives of pairs: a column, or a search by a trained network."""

from operator import not_
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bertc.ir.base import BY_KIND, Node
from bertc.ir.learning.answer import MOST_CHOICES

TextKind = Literal["query", "document"]
"""The part of a text in a search, which chooses its prompt."""
_Number = Annotated[int, Field(ge=1, lt=MOST_CHOICES)]


class InColumn(Node):
    """Negatives in the column ``negative``: a text, or the first ``number`` of a list."""

    kind: Literal["column"] = "column"
    number: _Number = 1
    positional = ("number",)


class Mined(Node):
    """Positives of other examples that the network of ``run`` ranks near a text.

    Ranks ``skip`` to ``top`` are candidates; those with more than ``margin`` times the positive's
    similarity are left out as false negatives (NV-Retriever, TopK-PercPos: 95%). The first
    ``number`` of the rest are taken; where there are fewer, random positives fill up. ``judge`` is
    a run of ``rerank``, whose scores from 0 to 1 take the place of similarities in ``margin``.
    """

    kind: Literal["mined"] = "mined"
    run: Annotated[str, Field(min_length=1)]
    top: Annotated[int, Field(ge=1, le=10_000)] = 50
    skip: Annotated[int, Field(ge=0, le=10_000)] = 0
    margin: Annotated[float, Field(gt=0, le=1)] = 0.95
    number: _Number = 1
    judge: Annotated[str, Field(exclude_if=not_)] = ""
    positional = ("run",)

    @model_validator(mode="after")
    def _ranks(self) -> Self:
        if self.top - self.skip < self.number:
            raise ValueError(
                f"ranks {self.skip} to {self.top} are fewer than the {self.number} negatives taken",
                f"top={self.skip + self.number}, or more",
            )
        return self


Negatives = Annotated[InColumn | Mined, BY_KIND]
"""The closed union of sources of negatives."""
IN_COLUMN = InColumn()
