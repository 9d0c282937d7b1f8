"""A network of a stage: body, role, ties, and the terms it learns."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from bertc.ir import operation as op
from bertc.ir.base import Weight
from bertc.ir.learning.objective import Objective, Term
from bertc.ir.network.body import Body
from bertc.ir.network.generator import Tie
from bertc.ir.terms.node import RowShape

MAIN = "encoder"
"""The name of the main network, which is trained, exported and returned."""

Role = Literal["trained", "sampled"]
"""``trained`` for itself, or ``sampled``: trained for its guesses, which other networks read."""


@dataclass(frozen=True)
class Network:
    """A network of a stage; weights in ``ties`` belong to another network.

    The other fields apply while it is in use on rows of shape ``rows``. ``terms`` are those it
    learns; without any it is not trained. ``scored`` has one objective per head, the widest of
    those that share it, in the order of the states they read. Per row, ``num_outputs`` states are
    read, None for all, and ``query_states`` are of the query stream. ``directions`` is 2 if some
    rows are reversed. ``memory`` is the number of cached positions before each row.
    """

    name: str
    body: Body
    role: Role
    ties: tuple[Tie, ...] = ()
    terms: tuple[Term, ...] = ()
    scored: tuple[Objective, ...] = ()
    rows: RowShape = field(default_factory=lambda: RowShape(0, 0, 0, 0))  # Dynamo wraps no default
    num_outputs: int | None = None
    query_states: int = 0
    directions: int = 1
    memory: int = 0

    def owner(self, name: str) -> str:
        """The name of the network that owns a weight of this body."""
        return next((tie.network for tie in self.ties if tie.covers(name)), self.name)

    def own_weights(self) -> tuple[Weight, ...]:
        """The weights of its body, without tied ones."""
        return tuple(w for w in self.body.weights() if self.owner(w.name) == self.name)

    @property
    def pooled(self) -> bool:
        """True if a term reads the pooled first token."""
        return any(term.objective.pooled for term in self.terms)

    def head_operations(self, examples: int) -> op.Operations:
        """Operations of its heads on ``examples`` examples."""
        each = (one.operations(self.body, self.rows, examples) for one in self.scored)
        return tuple(operation for operations in each for operation in operations)

    @property
    def vocabulary_heads(self) -> int:
        """Number of heads that project onto the token table."""
        return sum(one.scored == "tokens" for one in self.scored) if self.terms else 0


def one_a_head(objectives: Iterable[Objective], rows: RowShape) -> tuple[Objective, ...]:
    """The widest objective of each head, in the order of the states they read."""
    widest: dict[str, Objective] = {}
    for one in objectives:
        other = widest.get(one.head_name)
        if other is None or one.head_rows(rows) > other.head_rows(rows):
            widest[one.head_name] = one
    return tuple(sorted(widest.values(), key=lambda one: one.output_rank))
