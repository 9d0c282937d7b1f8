"""A checked program with nothing left open: the value that estimate, build and train start from."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Literal, assert_never

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from bertc.ir.base import Node
from bertc.ir.data import Format, Mixing, Share, StreamPair, Vocabulary
from bertc.ir.learning.answer import Choice, Labels, Score
from bertc.ir.learning.custom_task import AnyTask
from bertc.ir.learning.objective import (
    Clm,
    Masked,
    Mlm,
    Nsp,
    Objective,
    Pairs,
    Plm,
    Rtd,
    Sbo,
    Sop,
    Term,
    Tlm,
)
from bertc.ir.learning.optimizer import Optimizer
from bertc.ir.learning.task import Family, Task
from bertc.ir.network.encoder import Encoder
from bertc.ir.network.generator import Generator
from bertc.ir.network.growth import Growth, Init

PACKED_AT_LEAST = 8
"""Tokens an example of a packed row takes up at least, on average."""
SHORTEST = 3
"""Tokens of the shortest example that shares a row: its specials and one token."""

NetworkName = Literal["generator", "encoder"]


@dataclass(frozen=True)
class Network:
    """A network at work in a stage.

    ``terms`` are those it learns; without any it is used as it is. ``asked`` is the number of
    states a row that are read, None if they are no fewer than there are. ``unseen`` tokens of a row
    have a second state. ``ways`` is 2 where rows are read in both directions.
    """

    name: NetworkName
    encoder: Encoder
    terms: tuple[Term, ...]
    asked: int | None
    unseen: int = 0
    ways: int = 1


def learner(objective: Objective, generator: Encoder | None) -> NetworkName:
    """The network that learns an objective: what is hidden is for a generator to tell."""
    match objective:
        case Mlm() | Tlm() | Sbo():
            return "encoder" if generator is None else "generator"
        case Clm() | Plm() | Nsp() | Sop() | Rtd() | Task():
            return "encoder"
        case _:
            assert_never(objective)


def batches_at_once(tokens: int, device: str) -> int:
    """Batches of so many tokens of text, padding included, that are fetched and corrupted together.

    A call takes the same time for few rows as for many, and the thread that fetches ahead and the
    one that trains change places less often. On a CPU they are few enough to weigh little beside a
    small model; on a GPU they keep it busy for longer than it takes to ask.
    """
    return max(1, (1 << 16 if device == "cpu" else 1 << 18) // tokens)


class Stage(Node):
    """One phase of a run and the networks it trains. ``first_step`` counts from the run's start.

    ``generator`` is the network that draws the tokens which stand in for others, if one does;
    ``replacements`` says whatever does.

    The schedule of ``optimizer`` runs over ``schedule_steps`` steps from ``schedule_start``: the
    whole run unless the stage brings an optimiser of its own. With ``grow`` its network begins from
    another one: that of the stage before, or for the first stage that of the run's ``init``. The
    optimiser's updates are counted from ``counted_from``.
    """

    name: str
    encoder: Encoder
    generator: Encoder | None
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
        return len(self.encoder.layers)

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
        answers = (task.answer for task in self.tasks)
        return max((a.most for a in answers if isinstance(a, Choice)), default=1)

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

    def hiding(self) -> tuple[Masked, ...]:
        """What chooses the tokens that are predicted or replaced, each term in rows of its own."""
        terms = tuple(t.objective for t in self.objective if isinstance(t.objective, Masked))
        replacing = self.replacing()
        return terms or ((replacing.choice(),) if replacing else ())

    @property
    def masking(self) -> Masked | None:
        """Of the terms that hide tokens the one that hides the most."""
        most: Masked | None = None
        for other in self.hiding():
            if most is None or other.predictions(self.seq) > most.predictions(self.seq):
                most = other
        return most

    @property
    def translates(self) -> bool:
        """Whether some rows are sentences and their translations."""
        return any(isinstance(term.objective, Tlm) for term in self.objective)

    def remembers(self, step: int) -> bool:
        """Whether the rows of step ``step`` of the run go on from a memory of earlier steps."""
        return bool(self.memory) and self.first_step < step < self.first_step + self.steps

    def remembered(self, network: NetworkName) -> int:
        """Positions that stand before the rows of a network: a generator remembers nothing."""
        return self.memory if network == "encoder" else 0

    def predictions(self) -> int:
        """Positions a row whose token is predicted or replaced; 0 if there are none."""
        if any(isinstance(term.objective, Clm) for term in self.objective):
            return self.seq
        if unseen := self.unseen():
            return unseen
        return self.masking.predictions(self.seq) if self.masking else 0

    def unseen(self) -> int:
        """Tokens a row that are told by who does not see them."""
        told = (term.objective for term in self.objective)
        return sum(each.predictions(self.seq) for each in told if isinstance(each, Plm))

    def replacing(self) -> Rtd | None:
        """The term that asks which tokens were replaced, if one does."""
        return next((t.objective for t in self.objective if isinstance(t.objective, Rtd)), None)

    def networks(self) -> tuple[Network, ...]:
        """Those at work, in the order in which they read."""
        order: tuple[NetworkName, ...] = ("generator", "encoder")
        found = []
        for name in order if self.generator else order[1:]:
            terms = tuple(t for t in self.objective if learner(t.objective, self.generator) == name)
            if terms or (name == "generator" and self.replacing()):
                unseen = self.unseen() if name == "encoder" else 0
                network = self.network(name)
                asked = self._asked(terms)
                found.append(Network(name, network, terms, asked, unseen, self.ways))
        return tuple(found)

    def network(self, name: NetworkName) -> Encoder:
        """The network of that name."""
        found = self.generator if name == "generator" else self.encoder
        assert found is not None, "asked only of what is there"
        return found

    def _asked(self, terms: tuple[Term, ...]) -> int | None:
        """States of a row that these terms read; None: no fewer than there are."""
        read = 0 if terms else self.predictions()
        for term in terms:
            match term.objective:
                case Mlm() | Tlm() as objective:
                    read += objective.predictions(self.seq) * (objective is self.masking)
                case Clm():
                    read += self.seq
                case Plm() as objective:
                    read += objective.predictions(self.seq)
                case Sbo():
                    read += 2 * self.predictions()
                case Nsp() | Sop():
                    read += self.texts
                case Rtd(over="all"):
                    return None
                case Task() as task:
                    if not isinstance(task.answer, Labels | Score | Choice):
                        return None
                    read = max(read, 1)
                case Rtd():
                    read += self.predictions()
                case unreachable:
                    assert_never(unreachable)
        return read if read < self.seq + self.unseen() else None


Layout = Literal["auto", "electra"]
"""A Hugging Face layout for a network that several can say; auto: BERT's."""


def layout_of(recipe: Family) -> Layout:
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
    layout: Layout = Field(default_factory=lambda run: layout_of(run["recipe"]))
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
    def encoder(self) -> Encoder:
        """The network the run is about, as the last stage leaves it."""
        return self.stages[-1].encoder

    @property
    def generator(self) -> Encoder | None:
        """The network that draws replacements, if one does."""
        return self.stages[-1].generator

    def network(self, name: NetworkName) -> Encoder:
        """The network of that name, as the last stage leaves it."""
        return self.stages[-1].network(name)

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
