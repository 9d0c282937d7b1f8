"""Ways to make vectors of texts from states of tokens, and to compare them."""

from typing import Annotated, Literal

from pydantic import Field

from bertc.ir.base import BY_KIND, Node, Width


class TokenVectors(Node):
    """A vector of ``width`` numbers for each token, by a linear map (ColBERT).

    The similarity of a query and a passage is the sum over the query's tokens of the highest cosine
    with a token of the passage (MaxSim). A query has at most ``query`` tokens, and is filled up to
    these with [MASK], which other tokens attend to or not. A passage is compared without tokens of
    punctuation. The tokens ``query_mark`` and ``passage_mark`` follow [CLS].
    """

    kind: Literal["tokens"] = "tokens"
    width: Width = 128
    query: Annotated[int, Field(ge=4, le=1_000_000)] = 32
    fill: Literal["unattended", "attended", "none"] = "unattended"
    skip: Literal["punctuation", "none"] = "punctuation"
    query_mark: str = ""
    passage_mark: str = ""
    positional = ("width", "query")


_Factor = Annotated[float, Field(ge=0, le=1e6)]


class SparseVectors(Node):
    """A weight for each token of the vocabulary, of which few are not 0 (SPLADE v2).

    It is log(1 + the highest score of the masked-LM head at a token of the text), 0 if that is
    below 0; vectors are compared by dot products. ``query`` and ``passage`` are factors of what the
    loss adds for weights in texts of either kind: the sum over the vocabulary of the squared mean
    over the batch (FLOPS, Paria et al. 2020). They rise with the square of the step from 0, over
    the share ``warmup`` of the steps.
    """

    kind: Literal["sparse"] = "sparse"
    query: _Factor = 5e-5
    passage: _Factor = 3e-5
    warmup: Annotated[float, Field(ge=0, le=1)] = 0.33
    positional = ("query", "passage")

    def factors(self, over: float) -> tuple[float, float]:
        """The factors of queries and passages after a share of the steps."""
        risen = min(1.0, over / self.warmup) ** 2 if self.warmup else 1.0
        return self.query * risen, self.passage * risen


OneVector = Literal["mean", "cls", "max", "last"]
"""A vector from states of tokens: their mean or maximum, or the state of the first or the last."""
Pooling = OneVector | Annotated[TokenVectors | SparseVectors, BY_KIND]
"""The closed union of ways."""
Similarity = Literal["cosine", "dot"]
"""The similarity of two vectors: their cosine, or their dot product."""
