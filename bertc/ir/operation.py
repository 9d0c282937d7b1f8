"""Operations of a forward pass, as plain data; ``cost/`` has the cost of each.

A node states its operations for a ``Call``. Sizes are totals over all rows of the call.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from bertc.ir.base import Part
from bertc.ir.blocks import block_size, in_blocks

Function = Literal["gelu", "gelu-tanh", "relu", "silu", "tanh", "add", "multiply"]
Mask = Literal["keys", "causal", "pairs", "targets", "bias", "scores"]
"""The attention mask: queries of a row share its keys (``keys``), or earlier ones (``causal``).

``pairs``: a mask (queries, keys), in which with ``targets`` a query may have no key; ``bias``: a
bias per head is added to the scores; ``scores``: one that has a gradient."""


class Call(NamedTuple):
    """One application of a network, or of a layer, to a batch.

    ``rows`` rows of ``tokens`` tokens each; states are computed for ``queries`` positions per row.
    Per row there are ``memory`` cached positions before it, ``query_states`` second states of its
    tokens (query stream), up to ``sequences`` packed sequences (0: unpacked), and ``pooled`` states
    that go through the pooler; ``decoded`` states are those of the mask decoder. ``directions`` is
    2 if some rows are reversed, else 1. Of the body the lowest ``layers`` are computed, None: all;
    with ``projects`` also queries, keys and values of the next.
    """

    rows: int
    tokens: int
    queries: int
    memory: int = 0
    query_states: int = 0
    directions: int = 1
    sequences: int = 0
    pooled: int = 0
    decoded: int = 0
    causal: bool = False
    layers: int | None = None
    projects: bool = False

    @property
    def keys(self) -> int:
        """Number of positions per row that queries attend to."""
        return self.memory + self.tokens

    @property
    def selects(self) -> bool:
        """True if queries are a subset of the states attended to."""
        return self.queries != self.keys

    @property
    def states(self) -> int:
        """Computed states of all rows."""
        return self.rows * self.queries

    @property
    def context(self) -> int:
        """Number of attended positions over all rows."""
        return self.rows * self.keys

    def of_all_states(self) -> "Call":
        """The same call with all states computed, as in all layers but the last."""
        queries = self.tokens + self.query_states
        return self if self.queries == queries else self._replace(queries=queries)


class Widths(NamedTuple):
    """The widths of one layer."""

    hidden: int
    heads: int
    head_dim: int
    ffn: int

    @property
    def inner(self) -> int:
        return self.heads * self.head_dim


@dataclass(frozen=True)
class Product:
    """``times`` matrix products (rows, inner) x (inner, columns).

    ``maps``: number of weight matrices side by side in the columns; 0: both factors are
    activations. ``constant``: the rows depend on no weights that learn, so backward has one product
    instead of two; ``frozen``: so too, since the maps do not learn. ``keeps_rows=False``: another
    operation saves the rows for backward. ``of_weights``: one factor is made of weights alone; with
    maps it is the rows, common to all layers. ``names`` of maps; ``adapts``: it is an adapter's.
    """

    rows: int
    inner: int
    columns: int
    times: int = 1
    maps: int = 1
    constant: bool = False
    frozen: bool = False
    keeps_rows: bool = True
    of_weights: bool = False
    names: tuple[str, ...] = ()
    adapts: bool = False


@dataclass(frozen=True)
class Attention:
    """softmax(Q K^T / sqrt(head_dim)) V in every head, with dropout on the probabilities.

    ``rows`` sequences, or up to ``sequences`` packed ones in each row (0: unpacked). A query
    attends to ``reach`` keys on each side and to its own, None: to all. ``keeps_output``: a fused
    kernel saves its output, as no later operation does.
    """

    rows: int
    queries: int
    keys: int
    heads: int
    head_dim: int
    dropout: bool
    mask: Mask = "keys"
    sequences: int = 0
    reach: int | None = None
    keeps_output: bool = False

    @property
    def pairs(self) -> int:
        """Queries and keys of a head that attend to each other, in all rows."""
        if self.reach is None:
            return self.rows * self.queries * self.keys
        reach = min(self.reach, self.keys - 1)
        seen = self.keys * (2 * reach + 1) - reach * (reach + 1)
        return self.rows * (self.queries * seen // self.keys)

    @property
    def span(self) -> int:
        """Keys that a query is scored against, masked ones too."""
        if self.reach is None or not in_blocks(self.keys, self.reach):
            return self.keys
        return block_size(self.reach) + 2 * self.reach


@dataclass(frozen=True)
class Recurrence:
    """``gates`` of a state of ``width`` from the one before it; maps of what is read are apart."""

    rows: int
    steps: int
    width: int
    inner: int
    gates: int


@dataclass(frozen=True)
class Lookup:
    """``rows`` vectors looked up in a table (table_rows, width), or added to earlier ones."""

    rows: int
    width: int
    table_rows: int


@dataclass(frozen=True)
class Norm:
    """A norm over ``width``; with ``residual`` of x + y, with ``dropout`` on y.

    ``keeps_input``: no other operation saves its input. ``affine``: it has weights.
    """

    rows: int
    width: int
    residual: bool = False
    dropout: bool = False
    keeps_input: bool = True
    affine: bool = True


@dataclass(frozen=True)
class Pointwise:
    """An elementwise function; of what it reads, ``kept`` elements are saved by nothing else."""

    function: Function
    elements: int
    kept: int = 0


@dataclass(frozen=True)
class Dropout:
    """Dropout on (rows, width)."""

    rows: int
    width: int


@dataclass(frozen=True)
class Copy:
    """A copy or cast of elements; ``kept``: the copy is saved for backward."""

    elements: int
    kept: bool = False


@dataclass(frozen=True)
class VocabularyLoss:
    """Cross entropy of (rows, vocab) logits, the output of a product."""

    rows: int
    vocab: int


@dataclass(frozen=True)
class Loss:
    """A loss over few scores in fp32, with ``kept`` numbers saved for backward."""

    scores: int
    kept: int


@dataclass(frozen=True)
class LossInBlocks:
    """A loss over scores of which a block at a time becomes loss and gradients, all in forward.

    A block has ``at_once`` of the ``scores`` (a CPU, elsewhere), in whole rows of ``row``; while it
    is there, ``held`` times as many numbers in fp32 are. ``kept`` gradients of states and ``table``
    ones of a table, in fp32, are saved for backward. ``by_part``: where a batch is compared with
    itself, of a micro-batch alone.
    """

    scores: int
    row: int
    at_once: tuple[int, int]
    held: float
    kept: int
    table: int = 0
    by_part: bool = False


@dataclass(frozen=True)
class Mixture:
    """A weighted sum of ``outputs`` states (rows, width), of which it saves one."""

    outputs: int
    rows: int
    width: int


@dataclass(frozen=True)
class Alone:
    """An operation without a backward pass: nothing that it depends on learns."""

    operation: "Operation"


@dataclass(frozen=True)
class Recorded:
    """Operations of the user's, which save ``values`` of activations and ``others`` bytes."""

    operations: tuple["Operation", ...]
    values: int = 0
    others: int = 0


Operation = (
    Product | Attention | Recurrence | Lookup | Norm | Pointwise | Dropout | Copy | Mixture
    | Recorded | Alone | VocabularyLoss | Loss | LossInBlocks
)  # fmt: skip
"""The closed union of operations."""
Operations = tuple[Operation, ...]


class Block(NamedTuple):
    """Operations of one part, whose weights get their gradients together.

    Blocks with the same ``owner`` apply the same weights, ``weights`` numbers, ``frozen`` or not.
    """

    part: Part
    owner: str
    weights: int
    operations: Operations
    frozen: int = 0


class Forward(NamedTuple):
    """A forward pass in order; a layer is several blocks, and the unit of recomputation."""

    embeddings: Operations
    layers: tuple[tuple[Block, ...], ...]
    last: Operations

    def operations(self) -> Operations:
        inside = (o for layer in self.layers for block in layer for o in block.operations)
        return (*self.embeddings, *inside, *self.last)
