"""Tables of token embeddings: of one width, or of narrower clusters for rare tokens."""

import math
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import BY_KIND, Dim, Initializer, Node, Normal, Part, Weight, Width, matrix

EULER = 0.5772156649015329
MASKED = 0.12


def table_weight(name: str, rows: Dim, width: Dim, init: Initializer) -> Weight:
    """A table of embeddings (rows, width), called ``embeddings.<name>.weight``."""
    return matrix(f"embeddings.{name}", rows, width, init, "embeddings", "table")


class Cluster(NamedTuple):
    """Token ids from ``low`` up to ``high``, and the width of their embeddings."""

    low: int
    high: int
    width: int

    @property
    def size(self) -> int:
        return self.high - self.low


class WholeTable(Node):
    """One table for all tokens; ``scaled``: embeddings times sqrt(hidden) (Transformer-XL).

    ``dropped``: the id of the mask token, -1: none. Its embedding is zero, and those of a text are
    times (1 - ``masked``) / (1 - its share of the text), as if dropout had taken it (ESM-2,
    token_dropout); ``masked`` is that share in training.
    """

    kind: Literal["whole"] = "whole"
    scaled: bool = False
    dropped: Annotated[int, Field(ge=-1, le=10**7, exclude_if=(-1).__eq__)] = -1
    # modeling_esm.py: 80% of the 15% that are predicted
    masked: Annotated[float, Field(ge=0, lt=1, exclude_if=MASKED.__eq__)] = MASKED

    narrows: ClassVar[bool] = False
    """True if each cluster has its own table and projection to the hidden width."""

    def clusters(self, vocab: int, embedding: int) -> tuple[Cluster, ...]:
        return (Cluster(0, vocab, embedding),)

    def weights(
        self, vocab: int, embedding: int, hidden: int, init: Initializer
    ) -> tuple[Weight, ...]:
        return (table_weight("token", ("vocab", vocab), ("embedding", embedding), init),)

    def operations(self, vocab: int, embedding: int, hidden: int, tokens: int) -> op.Operations:
        scaled = (op.Pointwise("multiply", tokens * embedding),)
        return (op.Lookup(tokens, embedding, vocab), *scaled * (self.dropped >= 0))


class AdaptiveTable(Node):
    """Clusters of tokens by frequency, rarer ones narrower (Baevski and Auli 2019, section 3).

    Each of ``cutoffs`` starts a cluster whose embeddings are ``div`` times narrower than those of
    the one before, projected to the hidden width. With ``div=1`` there is one table, and only the
    head uses the clusters.
    """

    kind: Literal["adaptive"] = "adaptive"
    cutoffs: Annotated[tuple[Width, ...], Field(min_length=1)]
    div: Annotated[int, Field(ge=1, le=1000)] = 4  # Baevski and Auli 2019, section 4.1
    scaled: bool = True  # mem_transformer.py, AdaptiveEmbedding.emb_scale
    maps_std: Annotated[float, Field(gt=0, le=10)] = 0.01  # train.py --proj_init_std
    positional = ("cutoffs", "div")
    dropped: ClassVar[int] = -1

    def clusters(self, vocab: int, embedding: int) -> tuple[Cluster, ...]:
        """Clusters from the most frequent ids to the rarest."""
        bounds = (0, *self.cutoffs, vocab)
        return tuple(
            Cluster(low, high, embedding // self.div**number)
            for number, (low, high) in enumerate(zip(bounds, bounds[1:], strict=False))
        )

    @property
    def narrows(self) -> bool:
        return self.div > 1

    def weights(
        self, vocab: int, embedding: int, hidden: int, init: Initializer
    ) -> tuple[Weight, ...]:
        if not self.narrows:
            return WholeTable().weights(vocab, embedding, hidden, init)
        weights: list[Weight] = []
        for number, (low, high, width) in enumerate(self.clusters(vocab, embedding)):
            name, rows = f"token.{number}", high - low
            weights.append(table_weight(name, ("vocab", rows), ("embedding", width), init))
            name = f"embeddings.{name}.project"
            weights.append(self.narrow_map(name, hidden, width, "embeddings"))
        return tuple(weights)

    def narrow_map(self, name: str, hidden: int, width: int, part: Part) -> Weight:
        """The projection between a cluster's width and the hidden width."""
        init = Normal(std=self.maps_std)
        return matrix(name, ("hidden", hidden), ("embedding", width), init, part)

    def operations(self, vocab: int, embedding: int, hidden: int, tokens: int) -> op.Operations:
        """Every table and projection on every token, which keeps shapes static at little cost."""
        clusters = self.clusters(vocab, embedding)
        if not self.narrows:
            return (op.Lookup(tokens, embedding, vocab),)
        return tuple(
            operation
            for low, high, width in clusters
            for operation in (
                op.Lookup(tokens, width, high - low),
                op.Product(tokens, width, hidden),
            )
        )


TokenTable = Annotated[WholeTable | AdaptiveTable, BY_KIND]
"""The closed union of token tables."""


def share_by_zipf(cluster: Cluster, vocab: int) -> float:
    """The fraction of text in a cluster, if the r-th most frequent word has frequency 1 / r."""
    return (_harmonic(cluster.high) - _harmonic(cluster.low)) / _harmonic(vocab)


def _harmonic(number: int) -> float:
    if number < 100:
        return sum([1 / rank for rank in range(1, number + 1)])
    return math.log(number) + EULER + 1 / (2 * number)
