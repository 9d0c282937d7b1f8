"""Bodies above one token table, and a bidirectional LSTM; ``model.bilstm`` has its module.

Tang et al. 2019, "Distilling Task-Specific Knowledge from BERT into Simple Neural Networks", 3.1.
Their code is castorini/d-bert: dbert/distill/model/bi_rnn.py, siamese_rnn.py, and confs/.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import Dim, FanIn, Part, Weight, Width, affine
from bertc.ir.network.body_node import BodyNode, BodySetting
from bertc.ir.network.head import Pooled, Pooling
from bertc.ir.network.layer import Dropout
from bertc.ir.network.table import table_weight

GATES = 4
COMPARED = 4
"""Vectors that two texts are compared by: u, v, u * v and |u - v|."""
DIRECTIONS = ("right", "left")
"""Ways in which a text is read, as weights are called by."""


def layer_weights(name: str, below: int, hidden: int, part: Part) -> tuple[Weight, ...]:
    """Maps from inputs and from the state before to the gates, in each direction.

    They are drawn uniformly by their fan-in; torch.nn.LSTM has hidden^-1/2 for all.
    """
    gates: Dim = ("gates", GATES * hidden)
    maps: tuple[tuple[str, Dim], ...] = (
        ("input", ("hidden", below)),
        ("state", ("hidden", hidden)),
    )
    return tuple(
        weight
        for direction in DIRECTIONS
        for leaf, width in maps
        for weight in affine(f"{name}.{direction}.{leaf}", gates, width, FanIn(), part)
    )


def layer_operations(rows: int, steps: int, inner: int, hidden: int) -> op.Operations:
    """Both directions of a layer over ``rows`` texts of ``steps`` tokens; all inputs come first."""
    states = rows * steps
    read = op.Copy(states * inner), op.Product(states, inner, GATES * hidden)
    run = (op.Recurrence(rows, steps, hidden, inner, GATES), op.Copy(states * hidden, kept=True))
    return (*(len(DIRECTIONS) * read), *(len(DIRECTIONS) * run))


class BiLstm(BodySetting):
    """An LSTM in each direction, ``hidden`` wide; a token's state is both side by side.

    A layer reads both directions of the one below. A row is one vector: the last state of each
    direction. Of two texts each is read by itself, and their vectors u and v are compared as
    [u; v; u * v; |u - v|]. Where there is a pooler, a layer of so many ``units`` with ReLU follows.
    """

    kind: Literal["bilstm"] = "bilstm"
    hidden: Width = 150  # section 4.2: 150 or 300; confs/birnn_sst2.json hidden_size
    units: Width = 200  # confs/birnn_sst2.json fc_size
    layers: Annotated[int, Field(ge=1, le=1000)] = 1
    # Of older run folders: their programs load and stay the same.
    pairs: Literal["apart"] = "apart"
    project: Literal[0] = 0
    pool: Literal["ends"] = "ends"
    positional = ("hidden", "layers")
    looked_up = ("pairs", "project", "pool")
    segments = 2

    @property
    def depth(self) -> int:
        return self.layers

    @property
    def width(self) -> int:
        return len(DIRECTIONS) * self.hidden

    def network(self, texts: int, shared: Mapping[str, Any]) -> "BiLstmBody":
        return BiLstmBody(**shared, hidden=self.width, texts=texts, lstm=self)


class AboveTable(BodyNode):
    """A body whose embeddings are one token table, or tables, and no more."""

    dropout: Dropout

    @property
    @abstractmethod
    def setting(self) -> BodySetting:
        """The setting that makes it."""

    @abstractmethod
    def layer_weights(self, layer: int) -> tuple[Weight, ...]:
        """The weights of a layer."""

    @abstractmethod
    def layer_operations(self, layer: int, call: op.Call) -> op.Operations:
        """The operations of a layer."""

    @abstractmethod
    def pooler_weights(self) -> tuple[Weight, ...]:
        """The weights of its pooler, the map first; without one none."""

    @property
    def depth(self) -> int:
        return self.setting.depth

    @property
    def owners(self) -> Mapping[str, tuple[int, ...]]:
        return {"recurrence": tuple(range(self.depth))}

    def settings(self) -> dict[str, Any]:
        shared = ("embedding", "table", "head", "dropout", "initializer")
        read = (name for name in shared if name not in self.setting.unread)
        return {"body": self.setting, **{name: getattr(self, name) for name in read}}

    def weights(self) -> tuple[Weight, ...]:
        width: Dim = ("embedding", self.embedding)
        layers = (weight for layer in range(self.depth) for weight in self.layer_weights(layer))
        table = table_weight("token", ("vocab", self.vocab_size), width, self.initializer)
        return table, *layers, *self.pooler_weights()

    def operations(self, call: op.Call) -> op.Forward:
        """Every row is computed whole; a pooler's mean is of little account."""
        tokens, rate, width = call.rows * call.tokens, self.dropout, self.embedding
        pooled, maps = call.rows * call.pooled, self.pooler_weights()[:1]
        blocks = [
            op.Block("recurrence", f"recurrence.{n}", count, self.layer_operations(n, call))
            for n in range(self.depth)[: call.layers]
            for count in [sum(weight.numel for weight in self.layer_weights(n))]
        ]
        return op.Forward(
            embeddings=(
                *self.table.operations(self.vocab_size, width, width, tokens),
                *((op.Dropout(tokens, width),) if rate.hidden else ()),
            ),
            layers=tuple((block,) for block in blocks),
            last=(
                *((op.Dropout(tokens, self.hidden),) if rate.last else ()),
                *(op.Product(pooled, w.shape[1], w.shape[0]) for w in maps if pooled),
            ),
        )


class BiLstmBody(AboveTable):
    """The layers of ``lstm`` over each of up to ``texts`` texts of a row, which it compares."""

    texts: Annotated[int, Field(ge=1, le=2)]
    lstm: BiLstm

    body_kind = "bilstm"

    @property
    def setting(self) -> BiLstm:
        return self.lstm

    @property
    def kinds_of_segments(self) -> int:
        return self.lstm.segments

    @property
    def _row_width(self) -> int:
        return self.hidden * (COMPARED if self.texts > 1 else 1)

    @property
    def pooled(self) -> Pooled:
        steps = Pooling(("relu",)) if self.pooler else None
        width = self.lstm.units if steps else self._row_width
        return Pooled(True, width, steps, self.head_activation)

    def read_by_direction(self, layer: int) -> int:
        """Width of the inputs of a direction of a layer."""
        return self.hidden if layer else self.embedding

    def layer_weights(self, layer: int) -> tuple[Weight, ...]:
        below, hidden = self.read_by_direction(layer), self.lstm.hidden
        return layer_weights(f"recurrence.{layer}", below, hidden, "recurrence")

    def pooler_weights(self) -> tuple[Weight, ...]:
        units: Dim = ("feature", self.lstm.units)
        maps = affine("pooler", units, ("hidden", self._row_width), self.initializer, "pooler")
        return maps if self.pooler else ()

    def layer_operations(self, layer: int, call: op.Call) -> op.Operations:
        """Each text of a row takes as many steps as the row has tokens."""
        dropped = layer and self.dropout.hidden
        before = (op.Dropout(call.rows * call.tokens, self.hidden),) if dropped else ()
        below, rows = self.read_by_direction(layer), call.rows * self.texts
        return *before, *layer_operations(rows, call.tokens, below, self.lstm.hidden)
