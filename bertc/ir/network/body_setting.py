"""The setting ``body``: which kind of network computes the states, and what that kind needs."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from bertc.ir.base import Initializer, Node
from bertc.ir.network.body_node import BodyNode
from bertc.ir.network.head import Head, PoolerKind
from bertc.ir.network.layer import Dropout
from bertc.ir.network.table import TokenTable

Ability = Literal[
    "causal", "permuted", "packed", "remembering", "backward", "generating", "decoding"
]
"""Abilities that some objectives and row formats need.

States see no later token, or tokens in any order; rows hold several examples, go on from the rows
before, or run backward; a generator is made like the encoder; a mask decoder is above it.
"""

OF_TRANSFORMERS = (
    "layers", "hidden", "heads", "head_dim", "ffn", "share", "attention", "activation", "norm",
    "positions", "segments", "language_embeddings", "grow", "prune",
)  # fmt: skip
"""The settings that only a transformer has."""


@dataclass(frozen=True)
class Shared:
    """The settings that bodies of every kind have; pooled states are of ``texts`` texts a row."""

    vocab_size: int
    embedding: int
    table: TokenTable
    causal: bool
    pooler: PoolerKind
    head: Head
    dropout: Dropout
    initializer: Initializer
    texts: int


class BodySetting(Node):
    """A kind of body other than the transformer, with arguments of its own.

    ``unread`` are the settings it has no use for, ``able`` what it can do; ``attends`` as in
    ``BodyNode``.
    """

    kind: str
    unread: ClassVar[tuple[str, ...]] = OF_TRANSFORMERS
    able: ClassVar[frozenset[Ability]] = frozenset()
    attends: ClassVar[bool] = False

    @property
    @abstractmethod
    def depth(self) -> int:
        """Number of layers."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Width of its states."""

    @property
    def segments(self) -> int:
        """Number of segments of a row that it distinguishes."""
        return 0

    @abstractmethod
    def network(self, shared: Shared) -> BodyNode:
        """The body with every dimension known."""


class Transformer(Node):
    """Layers of attention and feed-forward parts, as the settings of the encoder say."""

    kind: Literal["transformer"] = "transformer"

    unread: ClassVar[tuple[str, ...]] = ()
    attends: ClassVar[bool] = True
    able: ClassVar[frozenset[Ability]] = frozenset(
        {
            "causal",
            "permuted",
            "packed",
            "remembering",
            "backward",
            "generating",
            "decoding",
        }  # fmt: skip
    )
