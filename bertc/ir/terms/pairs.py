"""Questions about the two segments of an input (``nsp``, ``sop``)."""

from typing import ClassVar, Literal

from bertc.ir.terms.heads import Classifier
from bertc.ir.terms.node import FP32, LONG, RowShape, TextTerm


class PairTerm(TextTerm):
    """A binary question about the two segments of an input, asked of the pooled first token."""

    scored = "binary"
    output_rank = 2
    answers: ClassVar[tuple[str, str]]

    @property
    def head_node(self) -> Classifier:
        """One linear map."""
        return Classifier(2)

    @property
    def pooled(self) -> bool:
        """Always."""
        return True

    def head_rows(self, rows: RowShape) -> int:
        """One an example."""
        return rows.examples

    def target_bytes(self, rows: RowShape) -> int:
        """Positions and weights; labels came with the text."""
        return rows.examples * (LONG + FP32)


class Nsp(PairTerm):
    """Is B the text that follows A? 0: yes, 1: it is from another document (BERT 3.1)."""

    kind: Literal["nsp"] = "nsp"
    pairs = "random-next"
    answers = ("B follows A", "B is from another document")


class Sop(PairTerm):
    """Do A and B stand in their order? 0: yes, 1: swapped (ALBERT 3.1)."""

    kind: Literal["sop"] = "sop"
    pairs = "swapped"
    answers = ("A and B in their order", "A and B swapped")
