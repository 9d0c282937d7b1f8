"""The setting ``body``: which kind of network computes the states, and what that kind needs."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

from bertc.ir.base import Node
from bertc.ir.network.body_node import BodyNode

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
