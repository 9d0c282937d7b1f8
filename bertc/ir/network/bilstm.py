"""A bidirectional LSTM: its setting, weights and operations; ``nn.bilstm`` has its module.

Tang et al. 2019, "Distilling Task-Specific Knowledge from BERT into Simple Neural Networks", 3.1.
Their code is castorini/d-bert: dbert/distill/model/bi_rnn.py, siamese_rnn.py, and confs/.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from bertc.ir import operation as op
from bertc.ir.base import Axis, FanIn, Weight, Width, affine
from bertc.ir.network.body_node import BodyNode
from bertc.ir.network.body_setting import Ability, BodySetting, Shared
from bertc.ir.network.encoder import Dropout
from bertc.ir.network.ffn import Activation
from bertc.ir.network.norm import LayerNorm, NormFunction

GATES = 4
DIRECTIONS = ("right", "left")
"""Ways in which a text is read, as weights are called by."""
COMPARED = 4
"""Vectors that two texts are compared by: u, v, u * v and |u - v|."""


class BiLstm(BodySetting):
    """An LSTM in each direction, ``hidden`` wide; a token's state is both side by side.

    A layer reads both directions of the one below, or with ``directions=apart`` each its own, so
    that half of a state is of the text before and half of the text after (ELMo, Peters et al. 2018,
    3.1).
    ``project``: width that the vectors of tokens are mapped to before, 0: they are read as they
    are. A row is one vector by ``pool``: the last state of each direction, or the largest or the
    mean value of all tokens. Of two texts each is read by itself, and their vectors u and v are
    compared as [u; v; u * v; |u - v|]; with ``pairs=joined`` they are one text. Where there is a
    pooler, a layer of so many ``units`` with ReLU follows.
    """

    kind: Literal["bilstm"] = "bilstm"
    hidden: Width = 150  # section 4.2: 150 or 300; confs/birnn_sst2.json hidden_size
    layers: Annotated[int, Field(ge=1, le=1000)] = 1
    project: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    pool: Literal["ends", "max", "mean"] = "ends"
    pairs: Literal["apart", "joined"] = "apart"
    directions: Annotated[
        Literal["joined", "apart"], Field(exclude_if=lambda how: how == "joined")
    ] = "joined"
    units: Width = 200  # confs/birnn_sst2.json fc_size
    positional = ("hidden", "layers")
    able = frozenset[Ability]({"causal"})

    @property
    def mixes_directions(self) -> bool:
        """True if a layer reads both directions of the one below."""
        return self.layers > 1 and self.directions == "joined"

    @property
    def depth(self) -> int:
        """Number of layers."""
        return self.layers

    @property
    def width(self) -> int:
        """Both directions."""
        return len(DIRECTIONS) * self.hidden

    @property
    def segments(self) -> int:
        """Two, which mark the texts of a row."""
        return 2

    def network(self, shared: Shared) -> "BiLstmBody":
        """The body; two texts are compared only with ``pairs=apart``."""
        return BiLstmBody(
            vocab_size=shared.vocab_size,
            embedding=shared.embedding,
            hidden=self.width,
            table=shared.table,
            causal=shared.causal,
            pooler=shared.pooler,
            head=shared.head,
            initializer=shared.initializer,
            lstm=self,
            dropout=shared.dropout,
            texts=shared.texts if self.pairs == "apart" else 1,
        )


class BiLstmBody(BodyNode):
    """The layers of ``lstm``, over each of up to ``texts`` texts of a row.

    A causal one predicts in both directions, from half of a state each.
    """

    lstm: BiLstm
    dropout: Dropout
    texts: Annotated[int, Field(ge=1, le=2)]

    body_kind = "bilstm"
    pools_rows = True

    @property
    def depth(self) -> int:
        """Number of layers."""
        return self.lstm.layers

    @property
    def owners(self) -> Mapping[str, tuple[int, ...]]:
        """Every layer its own."""
        return {"recurrence": tuple(range(self.depth))}

    @property
    def kinds_of_segments(self) -> int:
        """The two texts of a pair."""
        return self.lstm.segments

    @property
    def head_norm(self) -> NormFunction:
        """The norm of BERT's heads."""
        return LayerNorm(eps=1e-12)

    @property
    def head_activation(self) -> Activation:
        """The activation of BERT's heads."""
        return "gelu"

    @property
    def directions(self) -> int:
        """Two, once it learned every next token, and every one before."""
        return len(DIRECTIONS) if self.causal else 1

    @property
    def row_width(self) -> int:
        """Width of the vector of a row, before the pooler."""
        return self.hidden * (COMPARED if self.texts > 1 else 1)

    def read_width(self, pooled: bool) -> int:
        """Pooled, that of the pooler's units, or without a pooler of the vector of a row."""
        if not pooled:
            return self.hidden
        return self.lstm.units if self.pooler else self.row_width

    def settings(self) -> dict[str, Any]:
        """The kind with its arguments, and those that all kinds have."""
        shared = ("embedding", "table", "head", "dropout", "initializer")
        return {"body": self.lstm, **{name: getattr(self, name) for name in shared}}

    @property
    def inner(self) -> int:
        """Width of the inputs of the first layer."""
        return self.lstm.project or self.embedding

    def read_by_direction(self, layer: int) -> int:
        """Width of the inputs of a direction of a layer."""
        if layer == 0:
            return self.inner
        return self.lstm.hidden if self.lstm.directions == "apart" else self.hidden

    def embedding_weights(self) -> tuple[Weight, ...]:
        """The token table, and the map from it if there is one."""
        width: tuple[Axis, int] = ("embedding", self.embedding)
        axes: tuple[Axis, Axis] = ("vocab", "embedding")
        shape, init = (self.vocab_size, self.embedding), self.initializer
        table = Weight("embeddings.token.weight", shape, axes, init, "embeddings", "table")
        mapped = affine("embeddings.project", ("hidden", self.inner), width, init, "embeddings")
        return (table, *(mapped if self.lstm.project else ()))

    def layer_weights(self, layer: int) -> tuple[Weight, ...]:
        """Maps from inputs and from the state before to the gates, in each direction.

        They are drawn uniformly by their fan-in; torch.nn.LSTM has hidden^-1/2 for all.
        """
        gates: tuple[Axis, int] = ("gates", GATES * self.lstm.hidden)
        below: tuple[Axis, int] = ("hidden", self.read_by_direction(layer))
        before: tuple[Axis, int] = ("hidden", self.lstm.hidden)
        maps = (("input", below), ("state", before))
        return tuple(
            weight
            for direction in DIRECTIONS
            for name, width in maps
            for weight in affine(
                f"recurrence.{layer}.{direction}.{name}", gates, width, FanIn(), "recurrence"
            )
        )

    def pooler_weights(self) -> tuple[Weight, ...]:
        """The layer of units, if there is one."""
        units: tuple[Axis, int] = ("feature", self.lstm.units)
        row: tuple[Axis, int] = ("hidden", self.row_width)
        return affine("pooler", units, row, self.initializer, "pooler") if self.pooler else ()

    def weights(self) -> tuple[Weight, ...]:
        """In the order of the forward pass."""
        layers = (weight for layer in range(self.depth) for weight in self.layer_weights(layer))
        return (*self.embedding_weights(), *layers, *self.pooler_weights())

    def operations(self, call: op.Call) -> op.Forward:
        """Each text of a row takes as many steps as the row has tokens."""
        tokens, rate = call.rows * call.tokens, self.dropout
        pooled = call.rows * call.pooled if self.pooler else 0
        return op.Forward(
            embeddings=(
                *self.table.operations(self.vocab_size, self.embedding, self.inner, tokens),
                *((op.Dropout(tokens, self.embedding),) if rate.hidden else ()),
                *((op.Product(tokens, self.embedding, self.inner),) if self.lstm.project else ()),
            ),
            layers=tuple((self._layer(layer, call),) for layer in range(self.depth)),
            last=(
                *((op.Dropout(tokens, self.hidden),) if rate.last else ()),
                *((op.Product(pooled, self.row_width, self.lstm.units),) if pooled else ()),
            ),
        )

    def _layer(self, layer: int, call: op.Call) -> op.Block:
        rows, tokens = call.rows * self.texts, call.rows * call.tokens
        steps, wide = rows * call.tokens, self.lstm.hidden
        inner = self.read_by_direction(layer)
        direction = (
            op.Copy(steps * inner),
            op.Product(steps, inner, GATES * wide),
            op.Recurrence(rows, call.tokens, wide, inner, GATES),
            op.Copy(steps * wide, kept=True),
        )
        dropped = layer and self.dropout.hidden
        before = (op.Dropout(tokens, self.hidden),) if dropped else ()
        count = sum(weight.numel for weight in self.layer_weights(layer))
        found = (*before, *(len(DIRECTIONS) * direction))
        return op.Block("recurrence", f"recurrence.{layer}", count, found)

    def pooled_operations(self, rows: int) -> op.Operations:
        """ReLU of the units."""
        units = rows * self.lstm.units
        return (op.Pointwise("relu", units, kept=2 * units),) if self.pooler else ()
