"""A network of a stage: body, role, ties, and the terms it learns."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from bertc.ir import operation as op
from bertc.ir.base import ZEROS, Weight, once
from bertc.ir.learning import Objective, Term
from bertc.ir.network.body import Body
from bertc.ir.network.body_node import Wanted
from bertc.ir.network.generator import Tie
from bertc.ir.terms.heads import over_tokens
from bertc.ir.terms.node import RowShape, TaughtTerm

MAIN = "encoder"
"""The name of the main network, which is trained, exported and returned."""

Role = Literal["trained", "sampled", "frozen"]
"""``trained`` for itself, ``sampled``: trained for its guesses, which other networks read, or
``frozen``: never changed by the run.
"""


@dataclass(frozen=True)
class Network:
    """A network of a stage; weights in ``ties`` belong to another network, or are added to its.

    The other fields apply while it is in use on rows of shape ``rows``. ``terms`` are those it
    learns; without any it is not trained. ``scored`` has one objective per head, the widest of
    those that share it, in the order of the states they read. Per row, ``num_outputs`` states are
    read, None for all, of its mask decoder ``num_decoded``, and ``query_states`` are of the query
    stream; ``wanted`` are its other outputs. ``directions`` is 2 if some rows are reversed.
    ``memory`` is the number of cached positions before each row. A frozen network has a ``share``
    in the mean of several teachers.
    """

    name: str
    body: Body
    role: Role
    ties: tuple[Tie, ...] = ()
    terms: tuple[Term, ...] = ()
    scored: tuple[Objective, ...] = ()
    rows: RowShape = field(default_factory=lambda: RowShape(0, 0, 0, 0))  # Dynamo wraps no default
    num_outputs: int | None = None
    num_decoded: int | None = None
    wanted: Wanted = field(default_factory=lambda: Wanted(()))
    query_states: int = 0
    directions: int = 1
    memory: int = 0
    share: float = 1.0

    @property
    def learned(self) -> bool:
        """True if the run changes it: it then has gradients and moments, is saved and exported."""
        return self.role != "frozen"

    def owner(self, name: str) -> str:
        """The name of the network that owns a weight of this body."""
        owners = (tie.network for tie in self.ties if tie.covers(name) and not tie.added)
        return next(owners, self.name)

    def own_weights(self) -> tuple[Weight, ...]:
        """The weights of its body, without those of other networks; differences begin at zero."""
        added = [tie for tie in self.ties if tie.added]
        return tuple(
            replace(w, init=ZEROS) if any(tie.covers(w.name) for tie in added) else w
            for w in self.body.weights()
            if self.owner(w.name) == self.name
        )

    @property
    def pooled(self) -> bool:
        """True if a term reads what the pooler makes."""
        return any(term.states.use_pooler(self.body) for term in self.scored)

    @once
    def heads_apart(self, examples: int) -> tuple[op.Operations, ...]:
        """Operations of each of its heads on ``examples`` examples."""
        return tuple(
            term.taught_operations(self.body, self.rows, examples)
            if isinstance(term, TaughtTerm) and not self.learned
            else term.operations(self.body, self.rows, examples)
            for term in self.scored
        )

    def head_operations(self, examples: int) -> op.Operations:
        heads = self.heads_apart(examples)
        return tuple(operation for operations in heads for operation in operations)

    def decodes(self, term: Objective) -> bool:
        """True if an objective reads states of the mask decoder."""
        return self.body.head.decoder > 0 and term.states.decoded

    def outputs(self, seq: int) -> tuple[int, int]:
        """Last states per row of ``seq`` tokens, and those of the mask decoder."""
        last = seq + self.query_states if self.num_outputs is None else self.num_outputs
        decoded = seq if self.num_decoded is None else self.num_decoded
        if not self.wanted.decoded:
            return last, 0
        return last * self.wanted.last, decoded

    @property
    def vocabulary_heads(self) -> int:
        """Number of heads that project onto the token table."""
        return sum(over_tokens(term.head_node) for term in self.scored) if self.terms else 0


def one_a_head(objectives: Iterable[Objective], rows: RowShape) -> tuple[Objective, ...]:
    """The widest objective of each head, and all taught ones, in the order of the states read."""
    widest: dict[tuple[str, bool], Objective] = {}
    for term in objectives:
        # Rows that are read causally have none of the other terms.
        key = term.title if term.teaching else term.head_name, term.order == "forward"
        earlier = widest.get(key)
        if earlier is None or term.head_rows(rows) > earlier.head_rows(rows):
            widest[key] = term
    return tuple(sorted(widest.values(), key=lambda term: term.states.rank))


def states_read(objectives: Iterable[Objective], rows: RowShape, *, varying: bool) -> int | None:
    """Number of states of a row that these objectives read together; None: all."""
    counts = list({term.states.name: term.outputs(rows) for term in objectives}.values())
    few = [number for number in counts if number is not None]
    if len(few) < len(counts):
        return None
    read = max(few, default=0) if varying else sum(few)
    return read if 0 < read < rows.seq + rows.queries else None


def collect_outputs(objectives: Iterable[Objective], network: Network, memory: int) -> Wanted:
    """Outputs of a network that some objectives want; a memory takes the states of all layers."""
    objectives = tuple(objectives)
    outputs = [term.wanted(learned=network.learned) for term in objectives]
    decoded = [network.decodes(term) for term in objectives]
    return Wanted(
        states=tuple(sorted({layer for output in outputs for layer in output.states})),
        projections=tuple(sorted({layer for output in outputs for layer in output.projections})),
        last=memory > 0
        or any(output.last and not d for output, d in zip(outputs, decoded, strict=True)),
        decoded=any(decoded),
    )
