"""Causal language modelling (``clm``)."""

from typing import Literal

from bertc.ir.terms.node import FP32, LONG, LanguageModel, RowShape


class Clm(LanguageModel):
    """Predict every next token from itself and earlier ones (Transformer-XL, section 3; GPT).

    An encoder trained with clm is causal, in use too.
    """

    kind: Literal["clm"] = "clm"
    order = "forward"
    ahead = True
    fills = "end"

    def predictions(self, seq: int) -> int:
        return seq

    def outputs(self, rows: RowShape) -> int | None:
        return None

    def target_bytes(self, rows: RowShape) -> int:
        """The next token of each position, and its weight."""
        return rows.seq * (LONG + FP32)
