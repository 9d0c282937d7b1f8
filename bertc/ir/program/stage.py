"""A stage of a resolved program: one phase of a run, and the networks at work in it."""

from dataclasses import replace
from operator import not_
from typing import Annotated, Any, Self, cast, get_args

from pydantic import Discriminator, Field, Tag

from bertc.ir.base import once
from bertc.ir.changing.growth import NetworkChange
from bertc.ir.learning import Objective, Task, Term
from bertc.ir.learning.answer import rows_an_example
from bertc.ir.learning.custom_task import TASKS, AnyTask
from bertc.ir.methods.adapter import NO_ADAPTER, Freezing, Lora
from bertc.ir.methods.average import Ema
from bertc.ir.methods.batches import FULL_BATCH, FallingMasks, RisingBatch, RowMemory, falls
from bertc.ir.methods.ending import Clock, Patience
from bertc.ir.methods.method import Method
from bertc.ir.methods.pruning import Units
from bertc.ir.network.body import Body
from bertc.ir.network.generator import Generator, GeneratorNetwork
from bertc.ir.program.network import MAIN, Network, Role, collect_outputs, one_a_head, states_read
from bertc.ir.program.settings import StageSettings
from bertc.ir.terms.masking import Masks
from bertc.ir.terms.node import Pairs, RowShape, TermNode, predicts_masked, translates
from bertc.ir.terms.task_head import LAST, Features

READ_IN_ORDER: tuple[Role, ...] = ("sampled", "frozen", "trained")
"""Roles of networks in the order of forward passes."""
PACKED_AT_LEAST = 8
"""Minimum mean number of tokens per example in packed rows."""
AnyMethod = (
    RisingBatch | FallingMasks | RowMemory | Clock | Lora | Freezing | Units | Ema | Patience
)
"""The closed union of methods."""
METHODS: tuple[type[Method], ...] = get_args(AnyMethod)
EVALUATED_FILES = tuple(m.holds.file for m in METHODS if m.holds and m.holds.evaluated)
"""Files of checkpoints that are evaluated, exported and handed on where they are there."""


def methods_of(settings: Any) -> tuple[AnyMethod, ...]:
    """The methods of a stage, by its settings or resolved, in the order in which they act."""
    known = vars(settings)  # absent attributes take long
    methods = (
        known.get("batch_warmup", FULL_BATCH), falls(settings.objective) and FallingMasks(),
        settings.memory and RowMemory(tokens=settings.memory),
        known.get("clock", 0) and Clock(hours=settings.clock),
        vars(known.get("encoder", settings)).get("adapt", NO_ADAPTER),
        settings.freeze and Freezing(what=settings.freeze), settings.prune, settings.average,
        settings.patience and Patience(evaluations=settings.patience),
    )  # fmt: skip
    at_work = tuple(m for m in methods if isinstance(m, Method))
    return cast(tuple[AnyMethod, ...], at_work)


class Stage(StageSettings):
    """One phase of a run: its settings, its networks, and its place, in steps of the run.

    ``encoder``, ``generator`` and those of ``teacher`` are the bodies of its networks, which
    ``allocated`` lists with their roles. ``replacements`` is the source of replaced tokens. With
    ``grow`` the network grows from the stage before, or from ``init``.

    The schedule of ``optimizer`` runs over ``schedule_steps`` steps from ``schedule_start``: the
    whole run, or the stage if that has an optimiser of its own; the optimiser counts its steps from
    ``counted_from``. It reads its text from batch ``first_batch`` on: where batches grow, each size
    is a stage, and reads on where the one before ended. ``row_words`` are the mean words of a row,
    0: not counted.
    """

    name: str
    encoder: Body
    generator: Body | None
    replacements: Generator
    grow: NetworkChange | None
    steps: int
    first_step: int
    pairs: Pairs
    padded: bool
    warmup_steps: int
    schedule_start: int
    schedule_steps: int
    counted_from: int
    first_batch: Annotated[int, Field(exclude_if=not_)] = 0
    row_words: Annotated[float, Field(exclude_if=not_)] = 0.0

    @property
    @once
    def methods(self) -> tuple[AnyMethod, ...]:
        """The methods that act over its steps, in order."""
        return methods_of(self)

    @property
    def layers(self) -> int:
        return self.encoder.depth

    @property
    def features(self) -> Features:
        """The layers that heads of its tasks read."""
        return next((task.features for task in self.tasks), LAST)

    @property
    def tokens_per_step(self) -> int:
        """Tokens read by one optimiser step, padding included."""
        return self.batch * self.seq

    @property
    def tasks(self) -> tuple[AnyTask, ...]:
        """Its tasks; empty for a stage of text."""
        return tuple(t.objective for t in self.objective if isinstance(t.objective, Task))

    @property
    def rows_an_example(self) -> int:
        """Rows per example: one per choice or text, else 1."""
        return max((1, *(rows_an_example(task.answer) for task in self.tasks)))

    @property
    def texts(self) -> int:
        """Maximum number of examples per row."""
        return max(1, self.seq // PACKED_AT_LEAST) if self.pack else 1

    @property
    def row(self) -> RowShape:
        """The shape of its rows, as terms need it."""
        terms = [term.objective for term in self.objective]
        queries = sum(t.predictions(self.seq) for t in terms if t.order == "permuted")
        return RowShape(self.seq, self.texts, self.rows_an_example, self.predictions(), queries)

    def masked_terms(self) -> tuple[Masks, ...]:
        """The terms that mask tokens, or choose them for replacement, each in rows of its own."""
        objectives = [term.objective for term in self.objective]
        masks = tuple(t.masks for t in objectives if t.masks is not None)  # torch 2.11: no :=
        return masks or tuple(t.replaces for t in objectives if t.replaces is not None)

    @property
    def translates(self) -> bool:
        """True if some rows are translation pairs."""
        return any(translates(term.objective) for term in self.objective)

    def predictions(self) -> int:
        """Positions per row that are predicted or replaced; 0 if there are none."""
        predicted = [term.objective.predictions(self.seq) for term in self.objective]
        return max((*predicted, *(masks.predictions(self.seq) for masks in self.masked_terms())))

    @property
    def held_out(self) -> Self:
        """The same in evaluations, where terms may mask another share of tokens."""
        terms = (
            term.model_copy(update={"objective": masks.held_out})
            if (masks := term.objective.masks)
            else term
            for term in self.objective
        )
        return self.model_copy(update={"objective": tuple(terms)})

    @property
    def allocated(self) -> tuple[Network, ...]:
        """All its networks, the main one first."""
        networks = [Network(MAIN, self.encoder, "trained")]
        source = self.replacements
        if self.generator is not None and isinstance(source, GeneratorNetwork):
            added, tied = source.ties
            networks = [Network(MAIN, self.encoder, "trained", added)]
            networks.append(Network("generator", self.generator, "sampled", tied))
        networks += [
            Network(f"teacher-{n + 1}" if n else "teacher", t.shape.body, "frozen", share=t.weight)
            for n, t in enumerate(self.teacher)
            if t.shape
        ]
        return tuple(networks)

    @property
    def learned(self) -> tuple[Network, ...]:
        return tuple(network for network in self.allocated if network.learned)

    def network(self, name: str) -> Network:
        return next(network for network in self.allocated if network.name == name)

    @property
    def sampled(self) -> Network | None:
        """The network that samples replacements, if there is one."""
        return next((network for network in self.allocated if network.role == "sampled"), None)

    def learner(self, objective: TermNode) -> Network:
        """The network that learns an objective: the sampled one for masked terms."""
        sampled = self.sampled if predicts_masked(objective) else None
        return sampled or self.allocated[0]

    @once
    def networks(self) -> tuple[Network, ...]:
        """Networks in use with what they learn and read, in the order of their forward passes."""
        in_use, rows, varying = [], self.row, bool(self.tasks)  # a batch is of one task
        learners = [self.learner(term.objective).name for term in self.objective]
        for network in sorted(self.allocated, key=lambda n: READ_IN_ORDER.index(n.role)):
            pairs = zip(self.objective, learners, strict=True)
            learned = tuple(term for term, name in pairs if name == network.name)
            scored = one_a_head(_scored(self, network, learned), rows)
            if not scored:
                continue
            trained, body = network.role == "trained", network.body
            memory = self.memory if trained else 0
            outputs = collect_outputs(scored, network, memory)
            last = [objective for objective in scored if not network.decodes(objective)]
            all_states = body.pooled.of_rows or body.depth in outputs.states + outputs.projections
            in_use.append(
                replace(
                    network,
                    terms=learned,
                    scored=scored,
                    rows=rows,
                    num_outputs=None if all_states else states_read(last, rows, varying=varying),
                    num_decoded=states_read(filter(network.decodes, scored), rows, varying=varying),
                    wanted=outputs,
                    query_states=rows.queries if trained else 0,
                    directions=self.format.directions,
                    memory=memory,
                )
            )
        return tuple(in_use)


def _scored(stage: Stage, network: Network, learned: tuple[Term, ...]) -> tuple[Objective, ...]:
    """The objectives that a network is at work for: its own, or those of networks after it."""
    objectives = [term.objective for term in stage.objective]
    if network.role == "frozen":
        return tuple(objective for objective in objectives if objective.teaching)
    replaces = any(objective.replaces for objective in objectives)
    if network.role == "sampled" and not learned and replaces:
        # What masks is a term of the objective, or one that stands for those of a generator.
        return cast(tuple[Objective, ...], stage.masked_terms())
    return tuple(term.objective for term in learned)


class TextStage(Stage):
    """A stage that learns from text."""


class TaskStage(Stage):
    """A stage of fine-tuning on labelled examples; every batch is of one task."""


def _sort(stage: object) -> str:
    """The tag of a stage, or of one as dumped, whose terms are tasks or text, never both."""
    terms = stage.get("objective") if isinstance(stage, dict) else None
    written = (t.get("objective") for t in terms if isinstance(t, dict)) if terms else ()
    learned = any(isinstance(task, dict) and task.get("kind") in TASKS for task in written)
    return "tasks" if learned or isinstance(stage, TaskStage) else "text"


AnyStage = Annotated[
    Annotated[TextStage, Tag("text")] | Annotated[TaskStage, Tag("tasks")], Discriminator(_sort)
]
"""The closed union of stages; both have the same fields, so that run folders stay readable."""
