"""A checked program with nothing left open: the value that estimate, build and train start from."""

import hashlib
import json
from typing import Literal, assert_never

from pydantic import Field

from bertc.ir.base import Kept, Matmul, Node, Weight
from bertc.ir.data import Format, Share, Vocabulary
from bertc.ir.encoder import Encoder
from bertc.ir.growth import Growth, Init
from bertc.ir.objective import Masked, Mlm, Nsp, Pairs, Sbo, Sop, Term, Tlm
from bertc.ir.optimizer import Optimizer

PACKED_AT_LEAST = 8
"""Tokens an example of a packed row takes up at least, on average."""


class Stage(Node):
    """One phase of a run and the encoder it trains. ``first_step`` counts from the run's start.

    The schedule of ``optimizer`` runs over ``schedule_steps`` steps from ``schedule_start``: the
    whole run unless the stage brings an optimiser of its own. With ``grow`` its network begins from
    another one: that of the stage before, or for the first stage that of the run's ``init``. The
    optimiser's updates are counted from ``counted_from``.
    """

    name: str
    encoder: Encoder
    grow: Growth | None
    steps: int
    first_step: int
    batch: int
    seq: int
    microbatch: int
    objective: tuple[Term, ...]
    data: tuple[Share, ...]
    smoothing: float
    mixing: Literal["rows", "batches"]
    format: Format
    pairs: Pairs
    padded: bool
    pack: bool
    optimizer: Optimizer
    warmup_steps: int
    schedule_start: int
    schedule_steps: int
    counted_from: int

    @property
    def layers(self) -> int:
        """How deep its network is."""
        return len(self.encoder.layers)

    @property
    def tokens_per_step(self) -> int:
        """Tokens read by one optimiser step, padding included."""
        return self.batch * self.seq

    @property
    def texts(self) -> int:
        """The most examples that one row holds."""
        return max(1, self.seq // PACKED_AT_LEAST) if self.pack else 1

    @property
    def masking(self) -> Masked | None:
        """Of the terms that hide tokens, each in rows of its own, the one that hides the most."""
        most: Masked | None = None
        for term in self.objective:
            other = term.objective
            if isinstance(other, Masked) and (
                most is None or other.predictions(self.seq) > most.predictions(self.seq)
            ):
                most = other
        return most

    @property
    def translates(self) -> bool:
        """Whether some rows are sentences and their translations."""
        return any(isinstance(term.objective, Tlm) for term in self.objective)

    def predictions(self) -> int:
        """Positions a row whose token is predicted by masked language modelling; 0 without it."""
        return self.masking.predictions(self.seq) if self.masking else 0

    def asked(self) -> int | None:
        """Positions a row whose states the objective reads; None: no fewer than there are."""
        read = 0
        for term in self.objective:
            match term.objective:
                case Mlm() | Tlm() as objective:
                    read += objective.predictions(self.seq) * (objective is self.masking)
                case Sbo():
                    read += 2 * self.predictions()
                case Nsp() | Sop():
                    read += self.texts
                case unreachable:
                    assert_never(unreachable)
        return read if read < self.seq else None


class Run(Node):
    """What holds for a run as a whole."""

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
    device: Literal["auto", "cpu", "cuda"]
    strategy: Literal["auto", "ddp", "fsdp", "hsdp"]


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
    def steps(self) -> int:
        """Optimiser steps of the whole run."""
        return sum(stage.steps for stage in self.stages)

    def terms(self) -> tuple[Term, ...]:
        """One term for each kind of objective that any stage trains, in the order met."""
        first: dict[str, Term] = {}
        for stage in self.stages:
            for term in stage.objective:
                first.setdefault(term.objective.kind, term)
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
        """The program as if every stage trained the network of one of them."""
        stages = (
            stage.model_copy(update={"encoder": network.encoder, "grow": None})
            for stage in self.stages
        )
        return self.model_copy(update={"stages": tuple(stages)})

    def fingerprint(self) -> str:
        """sha256 of everything that decides what is computed; names and origins do not."""
        text = json.dumps(self.model_dump(mode="json", exclude={"name", "origins"}), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def head_weights(resolved: Resolved) -> tuple[Weight, ...]:
    """Weights of the heads of all objectives, each once however many stages use it."""
    terms, encoder = resolved.terms(), resolved.encoder
    # mlm and tlm have one head.
    found = {w.name: w for term in terms for w in term.objective.weights(encoder)}
    return tuple(found.values())


def model_weights(resolved: Resolved) -> tuple[Weight, ...]:
    """The weight table of the whole model: the encoder's, then ``heads.`` and the heads'."""
    heads = (
        Weight(f"heads.{w.name}", w.shape, w.axes, w.init, w.part, w.role)
        for w in head_weights(resolved)
    )
    encoder = (
        Weight(f"encoder.{w.name}", w.shape, w.axes, w.init, w.part, w.role)
        for w in resolved.encoder.weights()
    )
    return (*encoder, *heads)


def head_matmuls(stage: Stage, batch: int) -> tuple[Matmul, ...]:
    """Products of the heads of one stage over ``batch`` examples."""
    encoder, products = stage.encoder, list[Matmul]()
    for term in stage.objective:
        match term.objective:
            case Mlm() | Tlm() as objective if objective is stage.masking:
                products += objective.matmuls(encoder, batch, stage.seq)
            case Sbo() as objective:
                products += objective.matmuls(encoder, batch, stage.predictions())
            case Nsp() | Sop() as objective:
                products += objective.matmuls(encoder, batch * stage.texts)
    return tuple(products)


def head_kept(stage: Stage) -> Kept:
    """What the heads of one stage keep for the backward pass, for one example."""
    encoder, total = stage.encoder, Kept()
    for term in stage.objective:
        match term.objective:
            case Mlm() | Tlm() as objective if objective is stage.masking:
                total += objective.kept(encoder, stage.seq)
            case Sbo() as objective:
                total += objective.kept(encoder, stage.predictions())
            case Nsp() | Sop() as objective:
                total += objective.kept(encoder).times(stage.texts)
    return total
