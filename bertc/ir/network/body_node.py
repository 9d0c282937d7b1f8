"""The base of all bodies, what the house requests of one, and of the setting ``body``."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self, get_args

from bertc.ir import operation as op
from bertc.ir.base import Initializer, Node, TableRows, Weight, Width
from bertc.ir.network.ffn import Activation
from bertc.ir.network.head import POOLINGS, Head, Pooled, PoolerKind, TokenHead
from bertc.ir.network.norm import LayerNorm, NormFunction
from bertc.ir.network.table import TokenTable

OF_ALL_LAYERS = "relative."
"""The names of weights that all layers use, independent of sharing, begin so."""


def layer_of(name: str) -> int | None:
    """The depth of a weight, ``<part>.<i>.<...>``: 0 for embeddings, i + 1, None above layers."""
    parts = name.split(".")
    if "embeddings" in parts[:2]:
        return 0
    number = next((part for part in parts[1:3] if part.isdigit()), None)
    return None if parts[0] == "heads" or number is None else int(number) + 1


class Wanted(NamedTuple):
    """Layers whose states are returned, and layers whose queries, keys and values are.

    0 stands for the embeddings, 1 for the first layer. ``last``: the last states are read too;
    ``decoded``: those of the mask decoder are.
    """

    states: tuple[int, ...] = ()
    projections: tuple[int, ...] = ()
    last: bool = True
    decoded: bool = False

    def whole_layers(self, depth: int) -> int:
        """Number of lowest layers, of ``depth``, that are computed in full."""
        if self.last:
            return depth
        below = (depth - 1) * self.decoded
        return max((below, *self.states, *(layer - 1 for layer in self.projections)))

    def projects_next(self, depth: int) -> bool:
        """True if of the layer above these queries, keys and values are computed, and no more."""
        return max((0, *self.projections)) > self.whole_layers(depth)


class Attended(NamedTuple):
    """Queries, keys and values of a layer; ``content_alone``: scores are their products alone."""

    widths: op.Widths
    content_alone: bool


class BodyNode(Node):
    """Token ids (batch, seq) to states (batch, seq, hidden), through a table ``embedding`` wide.

    ``body_kind`` is its kind as a setting. In a ``causal`` one no state depends on later tokens.
    Each of ``languages`` has a vector in a table of its own. ``packs``: a row may hold several
    examples, each read by itself. ``compiles``: its functions can be compiled. ``attends``: every
    token attends to others, so that the first may stand for its row, and embeddings are as wide as
    states.
    """

    vocab_size: TableRows
    embedding: Width
    hidden: Width
    table: TokenTable
    languages: tuple[str, ...] = ()
    causal: bool
    pooler: PoolerKind
    head: Head
    initializer: Initializer

    body_kind: ClassVar[str]
    packs: ClassVar[bool] = False
    compiles: ClassVar[bool] = False
    attends: ClassVar[bool] = False

    @property
    @abstractmethod
    def depth(self) -> int:
        """Number of layers."""

    @abstractmethod
    def weights(self) -> tuple[Weight, ...]:
        """Every trainable tensor, shared ones once, in the order of the forward pass."""

    @abstractmethod
    def operations(self, call: op.Call) -> op.Forward:
        """Operations of one forward pass; the last layer computes only the queries of ``call``."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings of a spec that make it, but for those that follow from the objective."""

    @property
    def head_norm(self) -> NormFunction:
        """The norm within heads: that of BERT's."""
        return LayerNorm(eps=1e-12)

    @property
    def head_activation(self) -> Activation:
        """The activation of heads: that of BERT's, unless they name one."""
        return "gelu" if self.head.activation == "same" else self.head.activation

    @property
    def pooled(self) -> Pooled:
        """The state of a row, and what its pooler does."""
        steps = POOLINGS.get(self.pooler)
        of_rows = steps is not None and steps.mean != "none"
        return Pooled(of_rows, self.hidden, steps, self.head_activation)

    def attention_of(self, layer: int) -> Attended | None:
        """Queries, keys and values of a layer, counted from 1; None without them."""
        return None

    @property
    def owners(self) -> Mapping[str, tuple[int, ...]]:
        """Parts that exist once a layer, each with the layer whose weights layer l uses."""
        return {}

    @property
    def merged(self) -> Self:
        """The same with maps that have taken in the pairs that are trained next to them, if any."""
        return self

    @property
    def kinds_of_segments(self) -> int:
        """Number of segments of a row that it distinguishes."""
        return 0

    @property
    def room(self) -> int | None:
        """Tokens of the longest row that it reads; None: any number."""
        return None

    def unread_layer_weights(self, outputs: Wanted) -> Iterable[Weight]:
        """Weights of layers that are not computed for what is wanted."""
        above = outputs.whole_layers(self.depth)
        return (weight for weight in self.weights() if (layer_of(weight.name) or 0) > above)

    @property
    def token_head(self) -> TokenHead:
        """The head over the vocabulary."""
        return TokenHead(
            kind=self.head, table=self.table, vocab=self.vocab_size, embedding=self.embedding,
            hidden=self.hidden, norm=self.head_norm, init=self.initializer,
        )  # fmt: skip


def count_unshared(body: BodyNode) -> tuple[int, ...]:
    """Number of weights of each layer that no other layer uses."""
    counts = [0] * body.depth
    several = tuple(
        f"{part}.{owner}."
        for part, owners in body.owners.items()
        for owner in owners
        if owners.count(owner) > 1
    )
    for weight in body.weights():
        if (layer := layer_of(weight.name)) and not weight.name.startswith(several):
            counts[layer - 1] += weight.numel
    return tuple(counts)


def is_below(name: str, layers: int) -> bool:
    """True of embeddings and the ``layers`` lowest layers; what all layers use is of the lowest."""
    layer = 1 if layers and name.startswith(OF_ALL_LAYERS) else layer_of(name)
    return layer is not None and layer <= layers


Ability = Literal[
    "causal", "permuted", "packed", "remembering", "backward", "generating", "decoding"
]
"""Abilities that some objectives and row formats need.

States see no later token, or tokens in any order; rows hold several examples, go on from the rows
before, or run backward; a generator is made like the encoder; a mask decoder is above it.
"""

OF_TRANSFORMERS = (
    "layers", "hidden", "heads", "head_dim", "ffn", "share", "attention", "activation", "norm",
    "positions", "segments", "language_embeddings", "adapt", "grow", "prune", "residual",
)  # fmt: skip
"""The settings that only a transformer has."""


class BodySetting(Node):
    """A kind of body other than the transformer, with arguments of its own.

    ``unread`` are the settings it has no use for, ``able`` what it can do; ``attends`` as in
    ``BodyNode``. ``segments``: number of segments of a row that it distinguishes.
    """

    kind: str
    unread: ClassVar[tuple[str, ...]] = OF_TRANSFORMERS
    able: ClassVar[frozenset[Ability]] = frozenset()
    attends: ClassVar[bool] = False
    segments: ClassVar[int] = 0

    @property
    @abstractmethod
    def depth(self) -> int:
        """Number of layers."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Width of its states."""

    @abstractmethod
    def network(self, texts: int, shared: Mapping[str, Any]) -> BodyNode:
        """The body with every dimension known, from the fields that all bodies have."""


class Transformer(Node):
    """Layers of attention and feed-forward parts, as the settings of the encoder say."""

    kind: Literal["transformer"] = "transformer"

    unread: ClassVar[tuple[str, ...]] = ()
    attends: ClassVar[bool] = True
    able: ClassVar[frozenset[Ability]] = frozenset(get_args(Ability))
