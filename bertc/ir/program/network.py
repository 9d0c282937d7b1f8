"""A network of a stage: body, role, ties, and the terms it learns."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from bertc.ir import operation as op
from bertc.ir.base import ZEROS, Weight
from bertc.ir.learning.objective import Objective, Term
from bertc.ir.network.body import Body
from bertc.ir.network.body_node import Wanted
from bertc.ir.network.generator import Tie
from bertc.ir.once import once
from bertc.ir.terms.heads import over_tokens
from bertc.ir.terms.node import RowShape, TaughtTerm, TermNode, predicts_masked

MAIN = "encoder"
"""The name of the main network, which is trained, exported and returned."""

Role = Literal["trained", "sampled", "frozen"]
"""``trained`` for itself, ``sampled``: trained for its guesses, which other networks read, or
``frozen``: never changed by the run.
"""
READ_IN_ORDER: tuple[Role, ...] = ("sampled", "frozen", "trained")
"""Roles in the order of forward passes."""


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

    def adds(self, name: str) -> bool:
        """True for a weight that is a difference, added to another network's weight."""
        return any(tie.added and tie.covers(name) for tie in self.ties)

    def own_weights(self) -> tuple[Weight, ...]:
        """The weights of its body, without those of other networks; differences begin at zero."""
        return tuple(
            replace(w, init=ZEROS) if self.adds(w.name) else w
            for w in self.body.weights()
            if self.owner(w.name) == self.name
        )

    @property
    def pooled(self) -> bool:
        """True if a term reads what the pooler makes."""
        return any(one.states.use_pooler(self.body) for one in self.scored)

    @once
    def heads_apart(self, examples: int) -> tuple[op.Operations, ...]:
        """Operations of each of its heads on ``examples`` examples."""
        return tuple(
            one.taught_operations(self.body, self.rows, examples)
            if isinstance(one, TaughtTerm) and not self.learned
            else one.operations(self.body, self.rows, examples)
            for one in self.scored
        )

    def head_operations(self, examples: int) -> op.Operations:
        heads = self.heads_apart(examples)
        return tuple(operation for operations in heads for operation in operations)

    def decodes(self, objective: Objective) -> bool:
        """True if an objective reads states of the mask decoder."""
        return self.body.head.decoder > 0 and objective.states.decoded

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
        return sum(over_tokens(one.head_node) for one in self.scored) if self.terms else 0


def learner(networks: tuple[Network, ...], term: TermNode) -> Network:
    """The one of a stage's networks that learns a term: the sampled one for masked terms."""
    main, *rest = networks
    if not predicts_masked(term):
        return main
    return next((network for network in rest if network.role == "sampled"), main)


def at_work(
    networks: tuple[Network, ...],
    terms: tuple[Term, ...],
    masked: tuple[Objective, ...],
    rows: RowShape,
    directions: int,
    memory: int,
    varying: bool,
) -> tuple[Network, ...]:
    """The networks in use with what they learn and read, in the order of their forward passes.

    ``varying``: a batch is of one task.
    """
    in_use = []
    learners = [learner(networks, term.objective).name for term in terms]
    for network in sorted(networks, key=lambda network: READ_IN_ORDER.index(network.role)):
        learned = tuple(t for t, name in zip(terms, learners, strict=True) if name == network.name)
        scored = one_a_head(_scored(network, learned, terms, masked), rows)
        if not scored:
            continue
        trained = network.role == "trained"
        remembered = memory if trained else 0
        wanted, body = wanted_by(scored, network, remembered), network.body
        last = [one for one in scored if not network.decodes(one)]
        every = body.pooled.of_rows or body.depth in wanted.states + wanted.projections
        in_use.append(
            replace(
                network,
                terms=learned,
                scored=scored,
                rows=rows,
                num_outputs=None if every else states_read(last, rows, varying=varying),
                num_decoded=states_read(filter(network.decodes, scored), rows, varying=varying),
                wanted=wanted,
                query_states=rows.queries if trained else 0,
                directions=directions,
                memory=remembered,
            )
        )
    return tuple(in_use)


def _scored(
    network: Network,
    learned: tuple[Term, ...],
    terms: tuple[Term, ...],
    masked: tuple[Objective, ...],
) -> tuple[Objective, ...]:
    """The objectives that a network is at work for: its own, or those of networks after it."""
    every = [term.objective for term in terms]
    if network.role == "frozen":
        return tuple(one for one in every if one.teaching)
    if network.role == "sampled" and not learned and any(one.replaces for one in every):
        return masked
    return tuple(term.objective for term in learned)


def one_a_head(objectives: Iterable[Objective], rows: RowShape) -> tuple[Objective, ...]:
    """The widest objective of each head, and all taught ones, in the order of the states read."""
    widest: dict[tuple[str, bool], Objective] = {}
    for one in objectives:
        # Rows that are read causally have none of the other terms.
        key = one.title if one.teaching else one.head_name, one.order == "forward"
        other = widest.get(key)
        if other is None or one.head_rows(rows) > other.head_rows(rows):
            widest[key] = one
    return tuple(sorted(widest.values(), key=lambda one: one.states.rank))


def states_read(objectives: Iterable[Objective], rows: RowShape, *, varying: bool) -> int | None:
    """Number of states of a row that these objectives read together; None: all."""
    counts = list({one.states.name: one.outputs(rows) for one in objectives}.values())
    few = [number for number in counts if number is not None]
    if len(few) < len(counts):
        return None
    read = max(few, default=0) if varying else sum(few)
    return read if 0 < read < rows.seq + rows.queries else None


def wanted_by(objectives: Iterable[Objective], network: Network, memory: int) -> Wanted:
    """Outputs of a network that some objectives want; a memory takes the states of all layers."""
    objectives = tuple(objectives)
    wanted = [one.wanted(learned=network.learned) for one in objectives]
    decoded = [network.decodes(one) for one in objectives]
    return Wanted(
        states=tuple(sorted({layer for one in wanted for layer in one.states})),
        projections=tuple(sorted({layer for one in wanted for layer in one.projections})),
        last=memory > 0
        or any(one.last and not other for one, other in zip(wanted, decoded, strict=True)),
        decoded=any(decoded),
    )
