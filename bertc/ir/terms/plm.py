"""Causal and permutation language modelling (``clm``, ``plm``)."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.terms.node import LanguageModel, RowShape, StatesRead


class Plm(LanguageModel):
    """Predict some tokens of a row in a random order, each from those before it (Yang et al. 2019).

    About one token in ``k`` is a target, ``predictions(seq)`` per row; all others are visible to
    every token. Targets come in runs of n in 1..``max`` units, P(n) proportional to 1/n, each
    starting at a word within a context of k n tokens; ``unit`` is what n counts. Tokens are
    permuted within blocks of ``block`` tokens, in all blocks alike, and blocks stay in order; 0, or
    more than a row has: one block per row.
    """

    kind: Literal["plm"] = "plm"
    k: Annotated[int, Field(ge=1, le=1000)] = 6  # XLNet data_utils.py --mask_alpha, --mask_beta 1
    max: Annotated[int, Field(ge=1, le=64)] = 5  # data_utils.py, _sample_mask: max_gram
    unit: Literal["words", "pieces"] = "words"
    block: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    positional = ("k", "max")
    order = "permuted"
    fills = "masks"
    system = "xlnet"

    @property
    def states(self) -> StatesRead:
        """States of the query stream; each block has an order of its own."""
        return StatesRead(self.head_name, rank=4, block=self.block)

    def predictions(self, seq: int) -> int:
        """Predictions per row: 85 of 512 tokens (XLNet README, --num_predict)."""
        return max(1, seq // self.k)


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
