"""Replaced tokens: which they are (``rtd``), and what they were (``restore``)."""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field

from bertc.ir.base import Off
from bertc.ir.terms.heads import CopyingHead, DetectorHead, HeadNode, VocabularyHead
from bertc.ir.terms.masked import Mlm
from bertc.ir.terms.masking import Replace
from bertc.ir.terms.node import LanguageModel, RowShape, TextTerm


class ReplacedText(TextTerm):
    """A term on text in which tokens were replaced by guesses (ELECTRA 3).

    ``over``: all real tokens, or only those chosen for replacement. The chosen ones are those that
    ``mlm`` predicts, or without mlm a fraction ``p`` of the tokens.
    """

    over: Literal["all", "masked"]
    p: Annotated[float, Field(gt=0, le=1)] = 0.15  # configure_pretraining.py mask_prob
    positional = ("over",)
    system = "electra"

    @property
    def replaces(self) -> Mlm:
        """A fraction ``p`` of the tokens, each masked for a generator."""
        return Mlm(p=self.p, replace=Replace(mask=100, random=0, keep=0))

    def head_rows(self, rows: RowShape) -> int:
        return rows.seq if self.over == "all" else rows.predictions


class Rtd(ReplacedText):
    """Classify every token as original (0) or replaced (1) (ELECTRA 3).

    ``add_cls``: the state of a row's first token is added to each, and the sum normed, before the
    head (DeBERTa-v3).
    """

    kind: Literal["rtd"] = "rtd"
    over: Literal["all", "masked"] = "all"  # run_pretraining.py: all that input_mask covers
    add_cls: Off = False
    baseline = "majority"
    fills = "replaced"

    @property
    def head_node(self) -> DetectorHead:
        return DetectorHead(self.add_cls)

    @classmethod
    def of_head(cls, shapes: Mapping[str, tuple[int, ...]]) -> Self:
        return cls(add_cls="heads.rtd.norm.weight" in shapes)

    def outputs(self, rows: RowShape) -> int | None:
        """All states, or those of the chosen tokens, and the first of the example of each."""
        return None if self.over == "all" else (1 + self.add_cls) * rows.predictions


class Restore(ReplacedText, LanguageModel):
    """Predict the original tokens where a generator replaced some (ELECTRA 3.4).

    ``over=masked``: those chosen for replacement, "Replace MLM"; ``all``: every real token,
    "All-Tokens MLM", where a score per token says whether it is copied from the input.
    """

    kind: Literal["restore"] = "restore"
    over: Literal["all", "masked"] = "masked"

    @property
    def head_node(self) -> HeadNode:
        return CopyingHead() if self.over == "all" else VocabularyHead()

    def outputs(self, rows: RowShape) -> int | None:
        return None if self.over == "all" else rows.predictions
