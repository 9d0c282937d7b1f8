"""How a token's place enters the encoder."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import Node, Width


class LearnedPositions(Node):
    """One learned vector a position: ``rows`` of them, the first ``offset`` never read.

    RoBERTa has 514 rows with offset 2 (fairseq LearnedPositionalEmbedding, padding_idx + 1).
    """

    kind: Literal["learned"] = "learned"
    rows: Width
    offset: Annotated[int, Field(ge=0, le=1000)] = 0
    positional = ("rows", "offset")
    bare_number = ("rows",)


Positions = LearnedPositions
"""The closed union of position kinds."""
