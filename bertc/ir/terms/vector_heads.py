"""Heads of texts that are compared: vectors of texts, of their tokens, and over the vocabulary.

Arguments are those of ``ir/terms/heads.py``. ``scored``: texts of lists or pairs are compared
alone; else the first of each example with all other texts of the batch.
"""

from dataclasses import dataclass
from itertools import pairwise

from bertc.ir import operation as op
from bertc.ir.base import Dim, Weight, affine, matrix
from bertc.ir.blocks import SOFT_TARGETS, TOKEN_PAIRS
from bertc.ir.network.body import Body


def _compared(examples: int, docs: int, width: int, scored: bool) -> op.Operations:
    """Products of one vector a text, and the loss."""
    scores = examples if scored else examples * docs
    compared = () if scored else (op.Product(examples, width, docs, maps=0),)
    return (*compared, op.Loss(scores, kept=2 * scores))


@dataclass(frozen=True)
class VectorHead:
    """Similarities of vectors, perhaps after a dense layer with tanh (SimCSE, MLPLayer).

    ``maps``: widths of linear maps that follow.
    """

    dense: bool = False
    scored: bool = False
    maps: tuple[int, ...] = ()

    def weights(self, name: str, encoder: Body) -> tuple[Weight, ...]:
        hidden, init = encoder.hidden, encoder.initializer
        dense = affine(f"{name}.0", ("feature", hidden), ("hidden", hidden), init, "head")
        read: tuple[Dim, ...] = (("hidden", hidden), *(("feature", width) for width in self.maps))
        numbered = enumerate(pairwise(read))
        maps = (matrix(f"{name}.{n}", *both[::-1], init, "head") for n, both in numbered)
        return dense if self.dense else tuple(maps)

    def operations(self, encoder: Body, rows: int, examples: int) -> op.Operations:
        hidden = encoder.hidden
        mapped = tuple(op.Product(rows, *both) for both in pairwise((hidden, *self.maps)))
        dense = (
            op.Product(rows, hidden, hidden),
            op.Pointwise("tanh", rows * hidden, kept=rows * hidden),
        )
        width = (hidden, *self.maps)[-1]
        compared = _compared(examples, rows - examples, width, self.scored)
        return (*(dense if self.dense else mapped), *compared)


@dataclass(frozen=True)
class TokenVectorHead:
    """Vectors of tokens, compared token by token (MaxSim); the first of ``texts`` is a query."""

    width: int
    query: int
    texts: int
    scored: bool

    def weights(self, name: str, encoder: Body) -> tuple[Weight, ...]:
        hidden: Dim = ("hidden", encoder.hidden)
        return (matrix(f"{name}.0", ("feature", self.width), hidden, encoder.initializer, "head"),)

    def operations(self, encoder: Body, rows: int, examples: int) -> op.Operations:
        seq, docs = rows // (examples * self.texts), self.texts - 1
        query, width = min(self.query, seq), self.width
        if self.scored:
            pool, compared = docs, op.Product(query, width, docs * seq, examples, maps=0)
        else:
            pool = examples * docs
            compared = op.Product(examples * query, width, pool * seq, maps=0)
        found = examples * query * pool
        # Lists are compared at once, and else some queries at a time.
        row = found * seq if self.scored else query * pool * seq
        return (
            op.Product(rows, encoder.hidden, width),
            op.Pointwise("add", rows * width),
            compared,
            op.Loss(found, kept=2 * found),
            # Vectors of the whole batch: as read, as put together, and as they are compared.
            op.LossInBlocks(found * seq, row, TOKEN_PAIRS, held=4, kept=0, table=3 * rows * width),
        )


@dataclass(frozen=True)
class SparseHead:
    """Highest scores of a masked-LM head at the tokens of each of ``texts`` (``SparseVectors``)."""

    texts: int
    scored: bool

    def weights(self, name: str, encoder: Body) -> tuple[Weight, ...]:
        return encoder.token_head.weights(name)

    def operations(self, encoder: Body, rows: int, examples: int) -> op.Operations:
        head, texts = encoder.token_head, examples * self.texts
        scores, weights = rows * head.vocab, texts * head.vocab
        *layers, _ = head.operations(rows)
        return (
            *layers,
            # Scores of some texts at a time, of which the places of the highest are kept.
            op.LossInBlocks(scores, scores // texts, SOFT_TARGETS, held=1, kept=0,
                            table=head.table_elements, by_part=True),
            op.Loss(weights, kept=5 * weights),
            *_compared(examples, texts - examples, head.vocab, self.scored),
        )  # fmt: skip
