"""A network of a stage: its body, its role, what it shares, and what it is at work for."""

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
"""The network that a run is about."""

Role = Literal["trained", "sampled"]
"""A network is trained for what it becomes, or for the guesses that others read."""


@dataclass(frozen=True)
class Network:
    """A network of a stage; weights in ``ties`` are another network's own.

    All else is of a network at work, whose rows have the shape ``rows``. ``terms`` are those it
    learns; without any it is used as it is. ``scored`` has one objective for each head that is run,
    the widest of those that share it, in the order of what they read. ``asked`` is the number of
    states a row that are read, None if they are no fewer than there are. ``unseen`` tokens of a row
    have a second state. ``ways`` is 2 where rows are read in both directions. Before its rows stand
    ``memory`` positions of those before.
    """

    name: str
    body: Body
    role: Role
    ties: tuple[Tie, ...] = ()
    terms: tuple[Term, ...] = ()
    scored: tuple[Objective, ...] = ()
    rows: RowShape = field(default_factory=lambda: RowShape(0, 0, 0, 0))  # Dynamo wraps no default
    asked: int | None = None
    unseen: int = 0
    ways: int = 1
    memory: int = 0

    def owner(self, name: str) -> str:
        """The name of the network that a weight of its body belongs to."""
        return next((tie.network for tie in self.ties if tie.covers(name)), self.name)

    def own_weights(self) -> tuple[Weight, ...]:
        """The weights of its body, as that names them, but for tied ones."""
        return tuple(w for w in self.body.weights() if self.owner(w.name) == self.name)

    @property
    def pooled(self) -> bool:
        """Whether a term reads the pooled first token."""
        return any(term.objective.pooled for term in self.terms)

    def head_operations(self, examples: int) -> op.Operations:
        """Those of its heads over so many examples."""
        each = (one.operations(self.body, self.rows, examples) for one in self.scored)
        return tuple(operation for operations in each for operation in operations)

    @property
    def vocabulary_heads(self) -> int:
        """Heads that learn to score every token of the vocabulary."""
        return sum(one.scored == "tokens" for one in self.scored) if self.terms else 0


def one_a_head(objectives: Iterable[Objective], rows: RowShape) -> tuple[Objective, ...]:
    """The widest objective of each head, in the order of what they read of a row."""
    widest: dict[str, Objective] = {}
    for one in objectives:
        other = widest.get(one.head_name)
        if other is None or one.head_rows(rows) > other.head_rows(rows):
            widest[one.head_name] = one
    return tuple(sorted(widest.values(), key=lambda one: one.output_rank))
