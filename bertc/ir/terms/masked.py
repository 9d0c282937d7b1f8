"""Masked language modelling of text (``mlm``, ``mntp``) and of translations (``tlm``)."""

from typing import Literal, Self

from bertc.ir.terms.masking import Masks
from bertc.ir.terms.node import MASKED_HEAD, LanguageModel, StatesRead


class Masked(Masks, LanguageModel):
    """Mask tokens of the input and predict them."""

    positional = ("p", "unit")
    fills = "masks"

    @property
    def head_name(self) -> str:
        return MASKED_HEAD

    @property
    def states(self) -> StatesRead:
        """States of a mask decoder, where there is one."""
        return StatesRead("mlm", rank=0, decoded=True)

    @property
    def masks(self) -> Self:
        return self


class Mlm(Masked):
    """Predict masked tokens (BERT 3.1) in monolingual rows."""

    kind: Literal["mlm"] = "mlm"
    shorthand = "unit"


class Tlm(Masked):
    """Predict masked tokens of a sentence and its translation (XLM 3.3), with mlm's head.

    Rows are ``pairs``. Positions restart at 0 in the translation.
    """

    kind: Literal["tlm"] = "tlm"
    translations = True
    system = "xlm"


class Mntp(Masked):
    """Predict masked tokens, each from the state before it (BehnamGhader et al. 2024, 2.2).

    It has mlm's head, whose labels move one to the left, so that a network reads as causal ones do
    (GPT-BERT, Charpentier and Samuel 2024). A token that is first in its row has no prediction.
    """

    kind: Literal["mntp"] = "mntp"
    shorthand = "unit"
    ahead = True

    @property
    def states(self) -> StatesRead:
        """States of the encoder: a mask decoder has none before a mask."""
        return StatesRead("mntp", rank=0)
