"""A checked program with nothing left open: the value that estimate, build and train start from."""

import hashlib
import json
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from bertc.ir.base import Node
from bertc.ir.data import Format, Mixing, Share, StreamPair
from bertc.ir.learning.answer import Choice
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.learning.objective import Objective, Term
from bertc.ir.learning.optimizer import Optimizer
from bertc.ir.learning.task import Family, Task
from bertc.ir.network.body import Body
from bertc.ir.network.generator import Generator, GeneratorNetwork
from bertc.ir.network.growth import Growth, Init
from bertc.ir.program.network import MAIN, Network, one_a_head
from bertc.ir.terms.masked import Mlm, Tlm
from bertc.ir.terms.node import Pairs, RowShape, TermNode
from bertc.ir.vocabulary import Vocabulary

PACKED_AT_LEAST = 8
"""Tokens an example of a packed row takes up at least, on average."""
SHORTEST = 3
"""Tokens of the shortest example that shares a row: its specials and one token."""


def batches_at_once(tokens: int, device: str) -> int:
    """Batches of so many tokens of text, padding included, that are fetched and corrupted together.

    A call takes the same time for few rows as for many, and the thread that fetches ahead and the
    one that trains change places less often. On a CPU they are few enough to weigh little beside a
    small model; on a GPU they keep it busy for longer than it takes to ask.
    """
    return max(1, (1 << 16 if device == "cpu" else 1 << 18) // tokens)


class Stage(Node):
    """One phase of a run and the networks it trains. ``first_step`` counts from the run's start.

    ``encoder`` and ``generator`` are the bodies of its networks, which ``allocated`` lists with
    their roles. ``replacements`` says what draws the tokens that stand in for others.

    The schedule of ``optimizer`` runs over ``schedule_steps`` steps from ``schedule_start``: the
    whole run unless the stage brings an optimiser of its own. With ``grow`` its network begins from
    another one: that of the stage before, or for the first stage that of the run's ``init``. The
    optimiser's updates are counted from ``counted_from``.
    """

    name: str
    encoder: Body
    generator: Body | None
    replacements: Generator
    grow: Growth | None
    steps: int
    first_step: int
    batch: int
    seq: int
    microbatch: int
    objective: tuple[Term, ...]
    data: tuple[Share, ...]
    smoothing: float
    mixing: Mixing
    format: Format
    pairs: Pairs
    padded: bool
    pack: bool
    memory: int
    optimizer: Optimizer
    warmup_steps: int
    schedule_start: int
    schedule_steps: int
    counted_from: int
    freeze: int = 0
    patience: int = 0

    @property
    def layers(self) -> int:
        """How deep its network is."""
        return self.encoder.depth

    @property
    def tokens_per_step(self) -> int:
        """Tokens read by one optimiser step, padding included."""
        return self.batch * self.seq

    @property
    def tasks(self) -> tuple[AnyTask, ...]:
        """What it is fine-tuned for; none while text alone is learned from."""
        return tuple(t.objective for t in self.objective if isinstance(t.objective, Task))

    @property
    def rows_an_example(self) -> int:
        """Choices are read in a row each."""
        answers = [task.answer for task in self.tasks]
        return max((1, *(each.most for each in answers if isinstance(each, Choice))))

    @property
    def texts(self) -> int:
        """The most examples that one row holds."""
        return max(1, self.seq // PACKED_AT_LEAST) if self.pack else 1

    @property
    def parts(self) -> tuple[int, ...]:
        """Tokens of the parts of a row: it goes on after the first, and no part sees the next."""
        return self.format.parts(self.seq) if isinstance(self.format, StreamPair) else (self.seq,)

    @property
    def ways(self) -> int:
        """Directions in which rows are read."""
        return 2 if isinstance(self.format, StreamPair) and self.format.both_ways else 1

    @property
    def row(self) -> RowShape:
        """The shape of its rows, as terms are asked about it."""
        return RowShape(self.seq, self.texts, self.rows_an_example, self.predictions())

    def masked_terms(self) -> tuple[Mlm | Tlm, ...]:
        """The maskings that choose tokens to predict or replace, each in rows of its own."""
        objectives = [term.objective for term in self.objective]
        own = tuple(masks for one in objectives if (masks := one.masks))
        return own or tuple(masks for one in objectives if (masks := one.masks_alone))

    @property
    def translates(self) -> bool:
        """Whether some rows are sentences and their translations."""
        return any(term.objective.translations for term in self.objective)

    def remembers(self, step: int) -> bool:
        """Whether the rows of step ``step`` of the run go on from a memory of earlier steps."""
        return bool(self.memory) and self.first_step < step < self.first_step + self.steps

    def predictions(self) -> int:
        """Positions a row whose token is predicted or replaced; 0 if there are none."""
        own = [term.objective.predictions(self.seq) for term in self.objective]
        return max((*own, *(masks.predictions(self.seq) for masks in self.masked_terms())))

    def unseen(self) -> int:
        """Second states of a row, which see all but their own token."""
        return sum(term.objective.query_states(self.seq) for term in self.objective)

    @property
    def allocated(self) -> tuple[Network, ...]:
        """All its networks, the one that the run is about first."""
        found = [Network(MAIN, self.encoder, "trained")]
        if self.generator is not None and isinstance(self.replacements, GeneratorNetwork):
            found.append(Network("generator", self.generator, "sampled", self.replacements.ties))
        return tuple(found)

    def network(self, name: str) -> Network:
        """The network of that name."""
        return next(each for each in self.allocated if each.name == name)

    @property
    def sampled(self) -> Network | None:
        """The network whose guesses stand in for tokens, if one does."""
        return next((each for each in self.allocated if each.role == "sampled"), None)

    def learner(self, objective: TermNode) -> Network:
        """The network that learns an objective: what is masked is learned by the sampled one."""
        main, *_ = self.allocated
        return (self.sampled or main) if objective.predicts_masked else main

    def networks(self) -> tuple[Network, ...]:
        """Those at work, in the order in which they read: each what those before it made."""
        judged = any(term.objective.judges_guesses for term in self.objective)
        found = []
        for network in sorted(self.allocated, key=lambda each: each.role != "sampled"):
            terms = tuple(
                t for t in self.objective if self.learner(t.objective).name == network.name
            )
            if terms or (network.role == "sampled" and judged):
                objectives: list[Objective] = [term.objective for term in terms]
                scored = one_a_head(objectives or self.masked_terms(), self.row)
                main = network.role == "trained"
                found.append(
                    replace(
                        network,
                        terms=terms,
                        scored=scored,
                        rows=self.row,
                        asked=self._outputs(scored),
                        unseen=self.unseen() if main else 0,
                        ways=self.ways,
                        memory=self.memory if main else 0,
                    )
                )
        return tuple(found)

    def _outputs(self, scored: tuple[Objective, ...]) -> int | None:
        """States of a row that these read; None: no fewer than there are."""
        each = [one.outputs(self.row) for one in scored]
        few = [number for number in each if number is not None]
        if len(few) < len(each):
            return None
        read = max(few) if self.tasks else sum(few)  # a batch is of one task
        return read if read < self.seq + self.unseen() else None


HfLayout = Literal["auto", "electra"]
"""A Hugging Face layout for a network that several can say; auto: BERT's."""


def layout_of(recipe: Family) -> HfLayout:
    """Layout of networks that are tuned with a recipe."""
    return "electra" if recipe == "electra" else "auto"


class Run(Node):
    """Settings of a run as a whole.

    A dump leaves ``layout`` out where it follows from ``recipe``: programs written before it was a
    setting read back the same and keep their fingerprints.
    """

    seed: int
    init: Init
    save_every: int
    eval_every: int
    log_every: int
    eval_examples: int
    keep: int
    holdout: float
    precision: Literal["auto", "fp32", "bf16"]
    compile: Literal["auto", "on", "off"]
    recompute: Literal["auto", "on", "off"]
    device: Literal["auto", "cpu", "cuda", "mps"]
    strategy: Literal["auto", "ddp", "fsdp", "hsdp"]
    recipe: Family = "bert"
    layout: HfLayout = Field(default_factory=lambda run: layout_of(run["recipe"]))
    deterministic: Literal["yes", "no"] = "no"

    @model_serializer(mode="wrap")
    def _without_derived(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = dump(self)
        if self.layout == layout_of(self.recipe):
            found.pop("layout", None)
        return found


class Resolved(Node):
    """A program after all passes.

    ``origins`` says where each setting came from; it is no part of the fingerprint.
    """

    name: str
    stages: tuple[Stage, ...]
    vocabulary: Vocabulary
    languages: tuple[str, ...]
    run: Run
    origins: dict[str, str] = Field(default_factory=dict)

    @property
    def encoder(self) -> Body:
        """The body of the network that the run is about, as the last stage leaves it."""
        return self.stages[-1].encoder

    @property
    def allocated(self) -> tuple[Network, ...]:
        """All networks, as the last stage leaves them."""
        return self.stages[-1].allocated

    @property
    def steps(self) -> int:
        """Optimiser steps of the whole run."""
        return sum(stage.steps for stage in self.stages)

    def terms(self) -> tuple[Term, ...]:
        """One term for each name that any stage trains, in the order met."""
        first: dict[str, Term] = {}
        for stage in self.stages:
            for term in stage.objective:
                first.setdefault(term.name, term)
        return tuple(first.values())

    def stage_at(self, step: int) -> Stage:
        """The stage that step ``step`` (from 0) belongs to; the last one after the end."""
        for stage in self.stages:
            if step < stage.first_step + stage.steps:
                return stage
        return self.stages[-1]

    def trained_at(self, step: int) -> Stage:
        """The stage whose network a run holds after ``step`` steps, until the next one begins."""
        return self.stage_at(max(0, step - 1))

    def as_in(self, network: Stage) -> "Resolved":
        """The program as if every stage trained the networks of one of them."""
        networks = {"encoder": network.encoder, "generator": network.generator}
        stages = (stage.model_copy(update={**networks, "grow": None}) for stage in self.stages)
        return self.model_copy(update={"stages": tuple(stages)})

    def fingerprint(self) -> str:
        """sha256 of everything that decides what is computed; names and origins do not."""
        text = json.dumps(self.model_dump(mode="json", exclude={"name", "origins"}), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()
