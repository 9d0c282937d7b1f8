"""Embeddings of an encoder: tables that are added, their norm, and a projection."""

from dataclasses import dataclass

from bertc.ir import operation as op
from bertc.ir.base import Axis, Initializer, Weight, affine, unstated
from bertc.ir.network.norm import NormFunction
from bertc.ir.network.positions import Positions
from bertc.ir.network.table import TokenTable, table_weight


@dataclass(frozen=True)
class Embeddings:
    """The sum of vectors ``width`` wide of tokens, positions, segments and languages.

    Of another width than ``hidden`` they are projected (ALBERT 3.1). ``unseen``: one more is that
    of the query stream (XLNet 2.3).
    """

    vocab: int
    width: int
    hidden: int
    table: TokenTable
    positions: Positions
    segments: int
    languages: int
    unseen: bool
    norm: NormFunction | None

    def weights(self, init: Initializer) -> tuple[Weight, ...]:
        """Tables, their norm, and the projection."""
        width: tuple[Axis, int] = ("embedding", self.width)
        weights = [*self.table.weights(self.vocab, self.width, self.hidden, init)]
        weights += self.positions.weights("embeddings.position", width, init)
        if self.segments:
            weights.append(table_weight("segment", ("segments", self.segments), width, init))
        if self.languages:
            weights.append(table_weight("language", ("languages", self.languages), width, init))
        if self.unseen:
            vector, shape = unstated(init), (self.width,)
            name = "embeddings.unseen"
            weights.append(Weight(name, shape, width[:1], vector, "embeddings", "table"))
        if self.norm:
            weights += self.norm.weights("embeddings.norm", *width, part="embeddings")
        if self.width != self.hidden:
            hidden: tuple[Axis, int] = ("hidden", self.hidden)
            weights += affine("embeddings.project", hidden, width, unstated(init), "embeddings")
        return tuple(weights)

    def operations(self, call: op.Call, *, dropout: bool) -> op.Operations:
        """Table lookups, norm, dropout, and the projection."""
        states, width, hidden = call.states, self.width, self.hidden
        tables = (self.positions.rows, self.segments, self.languages)
        return (
            *self.table.operations(self.vocab, width, hidden, call.rows * call.tokens),
            *(op.Lookup(states, width, rows) for rows in tables if rows),
            *((op.Norm(states, width),) if self.norm else ()),
            *((op.Dropout(states, width),) if dropout else ()),
            *((op.Product(states, width, hidden),) if width != hidden else ()),
        )
