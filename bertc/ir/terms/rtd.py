"""Replaced token detection (``rtd``)."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.terms.heads import DetectorHead
from bertc.ir.terms.masked import Mlm
from bertc.ir.terms.masking import Replace
from bertc.ir.terms.node import FP32, LONG, RowShape, TextTerm


class Rtd(TextTerm):
    """Was this token replaced? 0: it is the original, 1: another (ELECTRA 3).

    Asked of every real token, or of those alone that were chosen to be replaced. They are those
    that ``mlm`` predicts, or without it a part ``p`` of the tokens.
    """

    kind: Literal["rtd"] = "rtd"
    over: Literal["all", "masked"] = "all"  # run_pretraining.py: all that input_mask covers
    p: Annotated[float, Field(gt=0, le=1)] = 0.15  # configure_pretraining.py mask_prob
    positional = ("over",)
    scored = "binary"
    judges_guesses = True

    @property
    def head_node(self) -> DetectorHead:
        """A dense layer and one score."""
        return DetectorHead()

    @property
    def masks_alone(self) -> Mlm:
        """A part ``p`` of the tokens, each hidden from a generator."""
        return Mlm(p=self.p, replace=Replace(mask=100, random=0, keep=0))

    def head_rows(self, rows: RowShape) -> int:
        """One for each token that it judges."""
        return rows.seq if self.over == "all" else rows.predictions

    def outputs(self, rows: RowShape) -> int | None:
        """All states, or those of the tokens that were chosen."""
        return None if self.over == "all" else rows.predictions

    def target_bytes(self, rows: RowShape) -> int:
        """The number that decides each guess, and which tokens are judged."""
        return LONG * rows.predictions + (FP32 * rows.seq if self.over == "all" else 0)
