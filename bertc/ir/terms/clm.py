"""Causal language modelling (``clm``)."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.terms.node import LanguageModel, RowShape


class Clm(LanguageModel):
    """Predict every next token from itself and earlier ones (Transformer-XL, section 3; GPT).

    An encoder trained with clm alone is causal, in use too. Next to a term that masks tokens it
    has rows of its own, which alone are read causally, and the head of that term.
    """

    kind: Literal["clm"] = "clm"
    head: Annotated[Literal["clm", "mlm"], Field(exclude_if="clm".__eq__)] = "clm"
    order = "forward"
    ahead = True
    fills = "end"

    @property
    def head_name(self) -> str:
        return self.head

    def predictions(self, seq: int) -> int:
        return seq

    def outputs(self, rows: RowShape) -> int | None:
        return None
