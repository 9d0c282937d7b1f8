"""Operations of one forward pass, as plain data; ``estimate/`` says what each of them costs.

A node states them for a ``Call``. Sizes are of all rows of the call together.
"""

from dataclasses import dataclass, replace
from typing import Literal

from bertc.ir.base import Part

Function = Literal["gelu", "gelu-tanh", "relu", "silu", "tanh", "add"]
Mask = Literal["keys", "causal", "pairs", "targets", "scores"]
"""Who attends to whom.

``keys``: every query to the same keys of its row; ``causal``: to earlier ones; ``pairs``: a mask of
queries by keys says so; ``targets``: the same where a query may have no key at all; ``scores``: so
do numbers for every head that are added to the scores and have a gradient.
"""


@dataclass(frozen=True)
class Call:
    """One application of a network, or of a layer of it, to a batch.

    Of each of ``rows`` with so many ``tokens`` it makes the states of ``queries``. ``memory``
    positions stand before each row; ``targets`` of its tokens have a state in the query stream; it
    is read in 1 or 2 ``directions``. ``sequences`` lie in it end to end at most, 0: it is one.
    ``pooled`` states of it go through the pooler.
    """

    rows: int
    tokens: int
    queries: int
    memory: int = 0
    targets: int = 0
    directions: int = 1
    sequences: int = 0
    pooled: int = 0
    causal: bool = False

    @property
    def keys(self) -> int:
        """Positions a row that queries attend to."""
        return self.memory + self.tokens

    @property
    def selects(self) -> bool:
        """Whether queries are other states than those attended to."""
        return self.queries != self.keys

    @property
    def states(self) -> int:
        """Computed states of all rows."""
        return self.rows * self.queries

    @property
    def context(self) -> int:
        """Positions attended to of all rows."""
        return self.rows * self.keys

    def of_all_states(self) -> "Call":
        """The same where nothing is left out, as in all layers but the last."""
        return replace(self, queries=self.tokens + self.targets)


@dataclass(frozen=True)
class Widths:
    """The widths of one layer."""

    hidden: int
    heads: int
    head_dim: int
    ffn: int

    @property
    def inner(self) -> int:
        """Of all heads together."""
        return self.heads * self.head_dim


@dataclass(frozen=True)
class Product:
    """``times`` products of (rows, inner) by (inner, columns).

    ``maps``: the columns are so many weight matrices side by side; 0: both factors are activations.
    ``constant``: the rows are no function of weights, so that backward makes one product, not two.
    Not ``keeps_rows``: another operation keeps them for backward.
    """

    rows: int
    inner: int
    columns: int
    times: int = 1
    maps: int = 1
    constant: bool = False
    keeps_rows: bool = True


@dataclass(frozen=True)
class Attention:
    """softmax(Q K^T / sqrt(head_dim)) V in every head, and dropout on its probabilities.

    Of ``rows``, or of so many ``sequences`` end to end in each (0: a row is one).
    """

    rows: int
    queries: int
    keys: int
    heads: int
    head_dim: int
    dropout: bool
    mask: Mask = "keys"
    sequences: int = 0


@dataclass(frozen=True)
class Lookup:
    """``rows`` vectors picked from a table of ``table_rows``, or added to others picked before."""

    rows: int
    width: int
    table_rows: int


@dataclass(frozen=True)
class Norm:
    """A norm over ``width``; a ``residual`` one is of x + y, with ``dropout`` on y.

    Not ``keeps_input``: it is there for backward already.
    """

    rows: int
    width: int
    residual: bool = False
    dropout: bool = False
    keeps_input: bool = True


@dataclass(frozen=True)
class Pointwise:
    """A function of every element by itself.

    ``kept`` numbers of its input are needed for backward that no other operation keeps.
    """

    function: Function
    elements: int
    kept: int = 0


@dataclass(frozen=True)
class Dropout:
    """Dropout of (rows, width)."""

    rows: int
    width: int


@dataclass(frozen=True)
class Copy:
    """Numbers put in another place or type; ``kept`` for backward or not."""

    elements: int
    kept: bool = False


@dataclass(frozen=True)
class VocabularyLoss:
    """The cross entropy of (rows, vocab) scores that a product made."""

    rows: int
    vocab: int


@dataclass(frozen=True)
class Loss:
    """A loss of few scores in fp32, of which backward needs ``kept`` numbers."""

    scores: int
    kept: int


Operation = Product | Attention | Lookup | Norm | Pointwise | Dropout | Copy | VocabularyLoss | Loss
"""The closed union of operations."""
Operations = tuple[Operation, ...]


@dataclass(frozen=True)
class Block:
    """Operations of one part, whose weights get their gradients together.

    Blocks of one ``owner`` apply the same ``weights``, so many numbers.
    """

    part: Part
    owner: str
    weights: int
    operations: Operations


@dataclass(frozen=True)
class Forward:
    """A forward pass in order: a layer is several blocks, and what recomputing does again."""

    embeddings: Operations
    layers: tuple[tuple[Block, ...], ...]
    last: Operations

    def operations(self) -> Operations:
        """All of it."""
        layers = (block.operations for layer in self.layers for block in layer)
        return (*self.embeddings, *(each for found in layers for each in found), *self.last)
