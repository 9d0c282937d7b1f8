"""The base of all bodies: what the rest of the house asks of one, whatever it computes with."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

from bertc.ir import operation as op
from bertc.ir.base import Initializer, Node, Weight, Width
from bertc.ir.network.ffn import Activation
from bertc.ir.network.head import POOLINGS, AdaptiveHead, Head, PoolerKind, Pooling
from bertc.ir.network.norm import NormFunction
from bertc.ir.network.table import AdaptiveTable, Cluster, TokenTable
from bertc.ir.network.wanted import Wanted


def layer_of(name: str) -> int | None:
    """The depth of a weight by its name: 0 for embeddings, i + 1 for layer i, None above them.

    Bodies call the weights of layer i ``<part>.<i>.<...>``, with their network's name before it or
    without.
    """
    parts = name.split(".")
    if "embeddings" in parts[:2]:
        return 0
    number = next((part for part in parts[1:3] if part.isdigit()), None)
    return None if parts[0] == "heads" or number is None else int(number) + 1


class BodyNode(Node):
    """Token ids (batch, seq) to states (batch, seq, hidden), through a table ``embedding`` wide.

    ``body_kind`` is its kind as a setting. In a ``causal`` one no state depends on later tokens.
    Each of ``languages`` has a vector in a table of its own. ``unshaped`` names those of its
    settings that change what is computed, and no weight's shape. ``packs``: a row may hold several
    examples, each read by itself. ``compiles``: its functions can be compiled. ``attends``: every
    token attends to others, so that the first may stand for its row, and embeddings are as wide as
    states.
    """

    vocab_size: Width
    embedding: Width
    hidden: Width
    table: TokenTable
    languages: tuple[str, ...] = ()
    causal: bool
    pooler: PoolerKind
    head: Head
    initializer: Initializer

    body_kind: ClassVar[str]
    unshaped: ClassVar[tuple[str, ...]] = ()
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
    def embedding_weights(self) -> tuple[Weight, ...]:
        """Weights before the layers, called ``embeddings.<...>``."""

    @abstractmethod
    def pooler_weights(self) -> tuple[Weight, ...]:
        """Weights of the pooler, called ``pooler.<...>``."""

    @abstractmethod
    def operations(self, call: op.Call) -> op.Forward:
        """Operations of one forward pass; the last layer computes only the queries of ``call``."""

    @abstractmethod
    def pooled_operations(self, rows: int) -> op.Operations:
        """Operations between the pooler's product and a head, for ``rows`` pooled states."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The settings of a spec that make it, but for those that follow from the objective."""

    @property
    @abstractmethod
    def head_norm(self) -> NormFunction:
        """The norm within heads."""

    @property
    @abstractmethod
    def head_activation(self) -> Activation:
        """The activation of heads."""

    def read_width(self, pooled: bool) -> int:
        """Width of the states that a head reads, pooled or not."""
        return self.hidden

    def attention_widths(self, layer: int) -> op.Widths | None:
        """Widths of a layer, counted from 1, with queries, keys and values; None without them."""
        return None

    def scores_content_alone(self, layer: int) -> bool:
        """True if the attention scores of a layer are products of queries and keys, no more."""
        return False

    @property
    def pooling(self) -> Pooling | None:
        """The steps of its pooler, if it has one."""
        return POOLINGS[self.pooler] if self.pooler else None

    @property
    def pools_rows(self) -> bool:
        """True if the state of a row is made of all its states, not of the first alone."""
        return self.pooling is not None and self.pooling.mean != "none"

    @property
    def pools_tokens(self) -> bool:
        """True if states of tokens go through the pooler too before a task scores them."""
        return self.pooling is not None and self.pooling.transforms

    @property
    def decodes(self) -> bool:
        """True if masked tokens are predicted from states of a mask decoder, not from the last."""
        return False

    @property
    def owners(self) -> Mapping[str, tuple[int, ...]]:
        """Parts that exist once a layer, each with the layer whose weights layer l uses."""
        return {}

    @property
    def unshared(self) -> tuple[int, ...]:
        """Number of weights of each layer that no other layer uses."""
        counts = [0] * self.depth
        for weight in self.weights():
            if layer := layer_of(weight.name):
                counts[layer - 1] += weight.numel
        return tuple(counts)

    @property
    def passes_through(self) -> bool:
        """True if a layer whose last maps are zero gives what it was given."""
        return False

    @property
    def kinds_of_segments(self) -> int:
        """Number of segments of a row that it distinguishes."""
        return 0

    @property
    def room(self) -> int | None:
        """Tokens of the longest row that it reads; None: any number."""
        return None

    @property
    def first_position(self) -> int:
        """The number that its first position has."""
        return 0

    @property
    def clamps(self) -> bool:
        """True if distances beyond a bound may be made to count as that."""
        return False

    def clamped(self, distance: int) -> Self:
        """The same with that bound."""
        raise ValueError("it knows no distances")

    @property
    def varying_steps(self) -> str:
        """The setting by which its steps depend on the length of a row; "" if none does."""
        return ""

    def common_weights(self) -> tuple[Weight, ...]:
        """Weights that all layers use, independent of sharing: none."""
        return ()

    def counted_weights(self) -> Iterator[tuple[tuple[Weight, ...], int, int]]:
        """Weights of parts, how often they are stored and applied; parts alike may be one."""
        yield self.weights(), 1, 1

    def unread_weights(self, pooled: bool, query_stream: bool, wanted: Wanted) -> frozenset[str]:
        """Names of weights that nothing wanted depends on, with or without pooler, query stream."""
        pooler = () if pooled else self.pooler_weights()
        return frozenset(w.name for w in (*pooler, *self.unread_layer_weights(wanted)))

    def unread_layer_weights(self, wanted: Wanted) -> Iterator[Weight]:
        """Weights of layers that are not computed for what is wanted."""
        whole_layers = wanted.whole_layers(self.depth)
        return (weight for weight in self.weights() if (layer_of(weight.name) or 0) > whole_layers)

    def is_below(self, name: str, layers: int) -> bool:
        """True if a weight belongs to the embeddings or to the ``layers`` lowest layers.

        Weights that all layers use belong to the lowest one too.
        """
        layer = layer_of(name)
        if layer is None and layers and name in {w.name for w in self.common_weights()}:
            layer = 1
        return layer is not None and layer <= layers

    def head_weights(self, name: str) -> tuple[Weight, ...]:
        """The weights of a head over the vocabulary, the tied table left out."""
        vocab, init, wide = self.vocab_size, self.initializer, self.hidden
        if isinstance(self.head, AdaptiveHead):
            return self.head.weights(name, wide, vocab, self._adaptive, init)
        return self.head.weights(name, wide, self.embedding, vocab, self.head_norm, init)

    def head_operations(self, rows: int) -> op.Operations:
        """The operations of the head over the vocabulary for ``rows`` states."""
        if isinstance(self.head, AdaptiveHead):
            return self.head.operations(self.hidden, self.vocab_size, self._adaptive, rows)
        return self.head.operations(self.hidden, self.embedding, self.vocab_size, rows)

    @property
    def _adaptive(self) -> AdaptiveTable:
        assert isinstance(self.table, AdaptiveTable), "the checks see to that"
        return self.table

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """The clusters of ids in the token tables."""
        return self.table.clusters(self.vocab_size, self.embedding)

    @property
    def table_elements(self) -> int:
        """Elements of the token tables."""
        return sum(cluster.size * cluster.width for cluster in self.clusters)

    def scores(self, rows: int) -> int:
        """Scores that the head over the vocabulary makes of ``rows`` states."""
        if isinstance(self.head, AdaptiveHead):
            first, *rarer = self.clusters
            judged = self.head.rows(self.vocab_size, self._adaptive, rows)
            of_rarer = sum(states * c.size for states, c in zip(judged, rarer, strict=True))
            return rows * (first.size + len(rarer)) + of_rarer
        return rows * self.vocab_size
