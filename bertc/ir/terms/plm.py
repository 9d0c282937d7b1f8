"""Permutation language modelling (``plm``)."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.terms.node import FP32, LONG, LanguageModel, RowShape


class Plm(LanguageModel):
    """Predict some tokens of a row in a random order, each from those before it (Yang et al. 2019).

    About one token in ``k`` is told, ``predictions(seq)`` of a row; all others are seen from the
    start. They come in runs of n in 1..``max``, P(n) proportional to 1/n, each from a word start in
    a context of k n tokens; ``unit`` is what n counts. Tokens change places within blocks of
    ``block``, in all blocks alike, and a block comes after those before it; 0, or more than there
    are in a row: the row is one.
    """

    kind: Literal["plm"] = "plm"
    k: Annotated[int, Field(ge=1, le=1000)] = 6  # XLNet data_utils.py --mask_alpha, --mask_beta 1
    max: Annotated[int, Field(ge=1, le=64)] = 5  # data_utils.py, _sample_mask: max_gram
    unit: Literal["words", "pieces"] = "words"
    block: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    positional = ("k", "max")
    output_rank = 4
    fills = "masks"

    def predictions(self, seq: int) -> int:
        """Predicted positions a row: of 512 tokens 85 (XLNet README, --num_predict)."""
        return max(1, seq // self.k)

    def query_states(self, seq: int) -> int:
        """One for each prediction."""
        return self.predictions(seq)

    def target_bytes(self, rows: RowShape) -> int:
        """The order of a row and its bounds; positions, targets and weights."""
        return 2 * LONG * rows.seq + (2 * LONG + FP32) * rows.predictions
