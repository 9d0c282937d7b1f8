"""A term of the user's own: a class that makes a loss of each row (``own``)."""

from typing import Literal

from bertc.ir.own import Own
from bertc.ir.terms.heads import OwnHead
from bertc.ir.terms.node import RowShape, TextTerm


class OwnTerm(TextTerm, Own):
    """A module of the user's own, from all states of a row to its loss; its class names it."""

    kind: Literal["own"] = "own"
    is_right_or_wrong = False

    @property
    def title(self) -> str:
        return self.code.rpartition(":")[2]

    @property
    def head_node(self) -> OwnHead:
        return OwnHead(self)

    def head_rows(self, rows: RowShape) -> int:
        return rows.seq

    def outputs(self, rows: RowShape) -> None:
        """All states."""
