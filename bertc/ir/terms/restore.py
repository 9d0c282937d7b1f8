"""Prediction of the original tokens from text with replaced ones (``restore``)."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.terms.heads import CopyingHead, HeadNode, VocabularyHead
from bertc.ir.terms.masked import Mlm
from bertc.ir.terms.masking import Replace
from bertc.ir.terms.node import FP32, LONG, LanguageModel, RowShape


class Restore(LanguageModel):
    """Predict the original tokens where a generator replaced some (ELECTRA 3.4).

    ``over=masked``: those chosen for replacement, "Replace MLM"; ``all``: every real token,
    "All-Tokens MLM", where a score per token says whether it is copied from the input. The chosen
    ones are those that ``mlm`` predicts, or without mlm a fraction ``p`` of the tokens.
    """

    kind: Literal["restore"] = "restore"
    over: Literal["masked", "all"] = "masked"
    p: Annotated[float, Field(gt=0, le=1)] = 0.15  # configure_pretraining.py mask_prob
    positional = ("over",)
    needs_replacements = True
    system = "electra"

    @property
    def head_node(self) -> HeadNode:
        """The vocabulary head, with a score for copying if all tokens are predicted."""
        return CopyingHead() if self.over == "all" else VocabularyHead()

    @property
    def masks_alone(self) -> Mlm:
        """A fraction ``p`` of the tokens, each masked for a generator."""
        return Mlm(p=self.p, replace=Replace(mask=100, random=0, keep=0))

    def head_rows(self, rows: RowShape) -> int:
        """One per predicted token."""
        return rows.seq if self.over == "all" else rows.predictions

    def outputs(self, rows: RowShape) -> int | None:
        """All states, or those of the chosen tokens."""
        return None if self.over == "all" else rows.predictions

    def target_bytes(self, rows: RowShape) -> int:
        """The random number of each guess; its original, or the mask of predicted tokens."""
        extra = FP32 * rows.seq if self.over == "all" else LONG * rows.predictions
        return LONG * rows.predictions + extra
