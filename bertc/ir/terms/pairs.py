"""Classification of two segments (``nsp``, ``sop``)."""

from typing import ClassVar, Literal

from bertc.ir.terms.heads import Classifier
from bertc.ir.terms.node import RowShape, StatesRead, TextTerm


class PairTerm(TextTerm):
    """Binary classification of two segments, from the pooled first token."""

    baseline = "majority"
    answers: ClassVar[tuple[str, str]]

    @property
    def head_node(self) -> Classifier:
        return Classifier(2, pooled=True)

    @property
    def states(self) -> StatesRead:
        return StatesRead(self.head_name, rank=2, pooled=True)

    def head_rows(self, rows: RowShape) -> int:
        return rows.examples


class Nsp(PairTerm):
    """Next sentence prediction: 0 if B follows A, 1 if it is from another document (BERT 3.1)."""

    kind: Literal["nsp"] = "nsp"
    pairs = "random-next"
    answers = ("B follows A", "B is from another document")


class Sop(PairTerm):
    """Sentence order prediction: 0 if A and B are in order, 1 if swapped (ALBERT 3.1)."""

    kind: Literal["sop"] = "sop"
    pairs = "swapped"
    answers = ("A and B in their order", "A and B swapped")
