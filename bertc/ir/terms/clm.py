"""Causal language modelling (``clm``)."""

from typing import Literal

from bertc.ir.terms.node import FP32, LONG, LanguageModel, RowShape


class Clm(LanguageModel):
    """Predict every next token, from it and those before (Transformer-XL, section 3; GPT).

    An encoder that learns this is causal, when it is used too.
    """

    kind: Literal["clm"] = "clm"
    causal = True
    fills = "end"

    def predictions(self, seq: int) -> int:
        """Predicted positions a row: all."""
        return seq

    def outputs(self, rows: RowShape) -> int | None:
        """All states."""
        return None

    def target_bytes(self, rows: RowShape) -> int:
        """The next token of each, and whether it counts."""
        return rows.seq * (LONG + FP32)
