"""The training step of a program, for those who time it: the one that a run would take here.

Beside it transformers' model of the program, and a batch as that reads it, to compare it with.

Axes: b batch, s sequence, k predictions of a row.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Any, Literal

import torch
from torch import Tensor

from bertc.base.diagnostics import DataError
from bertc.check.passes import resolve
from bertc.cost import Device, Machine, Plan
from bertc.cost.planning.schedules import rate
from bertc.hub.config import hf_config
from bertc.hub.families import family_for
from bertc.hub.families.config import Wordless
from bertc.hub.families.family import Family, Obstacle, transformer
from bertc.hub.networks import alone
from bertc.ir.network.body import first_position
from bertc.ir.network.encoder import Encoder
from bertc.ir.program import Network, Program, Resolved, Stage, split_rows
from bertc.ir.vocabulary import WordPiece
from bertc.learn.objectives import MicroBatch, corrupt, mask_key
from bertc.learn.objectives.targets import Predictions
from bertc.learn.step.feed import text_feed, to_inputs
from bertc.learn.step.micro_batches import split
from bertc.machine import machine
from bertc.machine.machine import detect, dtype_of, kernels, make_plan
from bertc.machine.memory import begin_peak, keep_freed_memory, peak_beyond
from bertc.model import build
from bertc.run.beginning.synthetic import RandomText, first_step, uniform_vocab

IGNORED = -100
"""The label of a position that is not predicted (torch's cross entropy)."""
OTHERWISE = "bertc bench SPEC without --against times bertc alone"


@dataclass(frozen=True)
class Counterpart:
    """transformers' models of a program's first stage, and its first batch.

    ``models`` has a class by name and the settings of its configuration, ``weights`` the weight of
    the loss of each. Of two the first is a generator, and ``ties`` what the second has of it:
    ``tokens`` (their table), ``embeddings`` or "". ``batch`` has arguments of forward, a dict a
    micro-batch, labelled as by transformers' collators, without their attention mask of ones.
    """

    models: tuple[tuple[str, dict[str, Any]], ...]
    weights: tuple[float, ...]
    ties: str
    batch: tuple[dict[str, Tensor], ...]


def counterpart(program: Resolved, rows: int) -> Counterpart:
    """The counterpart of a program, with micro-batches of ``rows`` examples of random tokens."""
    stage = program.stages[0]
    # RoBERTa's positions start after the padding id (fairseq, LearnedPositionalEmbedding).
    vocabulary = Wordless(max(0, first_position(program.encoder) - 1))
    family = family_for(alone(program), vocabulary.pad)
    if isinstance(family, Obstacle):
        raise DataError(f"transformers has no model of this spec: {family}", help=OTHERWISE)
    if stage.pack:
        raise DataError("pack=true stands in the way: transformers packs no rows", help=OTHERWISE)
    if len(split_rows(stage)) > 1:
        raise DataError("transformers reads a batch in one direction alone", help=OTHERWISE)
    networks = stage.networks()
    models = tuple(_describe(family, vocabulary, network) for network in networks)
    tied = networks[0].ties if networks[1:] else ()
    of_all = any(tie.covers("embeddings.norm.weight") for tie in tied)
    encoder, cpu, key = transformer(program), torch.device("cpu"), mask_key(program.run.seed)
    text, vocab = RandomText(stage, encoder.vocab_size), uniform_vocab(encoder.vocab_size, cpu)
    parts = split(to_inputs(text.train(0), cpu), rows)
    masked = (corrupt(stage, part, vocab, key) for part in parts)
    return Counterpart(
        models,
        tuple(network.terms[0].weight for network in networks),
        "embeddings" if of_all else "tokens" * bool(tied),
        tuple(_arguments(stage, encoder.segments, part, family.labels) for part in masked),
    )


def _describe(family: Family, vocabulary: Wordless, model: Network) -> tuple[str, dict[str, Any]]:
    """The class for a network's objectives, and its settings."""
    kinds, body = {term.objective.kind for term in model.terms}, model.body
    chosen = family.class_for(frozenset(kinds | ({"pooler"} if body.pooler else set())))
    known = chosen is not None and kinds <= chosen.parts & family.labels.keys()
    # Its class detects replacements among all tokens.
    detects = any(term.objective.fills == "replaced" for term in model.terms)
    known = known and not (detects and model.num_outputs is not None)
    if chosen is None or not known or not isinstance(body, Encoder):
        raise DataError(
            f"objective={'+'.join(sorted(kinds))} stands in the way: transformers has no class of "
            f"the {family.title} layout for it",
            help=OTHERWISE,
        )
    return chosen.name, hf_config(family, body, vocabulary, chosen)


def _arguments(
    stage: Stage, segments: int, micro_batch: MicroBatch, labels: Mapping[str, str]
) -> dict[str, Tensor]:
    first = stage.networks()[0]  # a generator reads before the network that reads its guesses
    reading = micro_batch.read_by(first)
    named = {
        "input_ids": reading.token_ids,
        "token_type_ids": reading.segment_ids if segments else None,
        "langs": reading.language_ids,
        "position_ids": reading.position_ids,
    }
    inputs = {name: ids for name, ids in named.items() if ids is not None}
    for term in first.terms:
        name = labels[term.name] if len(first.terms) > 1 else "labels"
        targets = micro_batch.terms[term.name]
        if term.objective.masks is not None:
            inputs[name] = _labels(targets, stage.seq)
        elif term.objective.fills == "replaced":
            inputs[name] = (reading.token_ids != micro_batch.originals).long()
        else:
            inputs[name] = targets.labels[:, 0]
    return inputs


def _labels(targets: Predictions, seq: int) -> Tensor:
    """Labels (b, s) of all positions, from those (b, k) of the predicted ones."""
    labels = torch.full((len(targets.positions), seq + 1), IGNORED)
    # Slots that are not used write into a column beyond the row, which is dropped.
    labels.scatter_(1, torch.where(targets.weights > 0, targets.positions, seq), targets.targets)
    return labels[:, :seq].contiguous()


UNBOUNDED_STEPS = 10**9
SMALL_PROGRAM = {
    "layers": 1, "hidden": 32, "heads": 2, "seq": 16, "batch": 4, "microbatch": 2, "steps": 10,
    "vocab": WordPiece(size=64), "compile": "off",
}  # fmt: skip

Step = Callable[[], float]
"""One optimiser step; returns the seconds that it waited for its data."""


class Stepper:
    """The step of a program's first stage on random tokens in full rows, under its plan here."""

    def __init__(self, program: Resolved, plan: Plan | None = None) -> None:
        """Plan the program for this machine, unless there is a plan."""
        self.plan = plan or make_plan(program)
        self.program = program.as_in(program.stages[0])

    @staticmethod
    def small(device: str, precision: Literal["fp32", "bf16"]) -> "Stepper":
        """A step that takes next to no time, on a device such as ``cpu``."""
        settings = {**SMALL_PROGRAM, "device": device, "precision": precision}
        return Stepper(resolve(Program("small", {}).with_values(**settings)))

    @property
    def compiled(self) -> "Stepper":
        """The same step, compiled."""
        return Stepper(self.program, replace(self.plan, compile=True))

    @cached_property
    def machine(self) -> Machine:
        """The machine: its device, name, cores and memory in bytes."""
        return detect(self.program.run.device)

    @property
    def device(self) -> Device:
        """The figures of its device, as estimates use them."""
        return machine.device_here(self.machine)

    def turn(self) -> AbstractContextManager[None]:
        """Surround steps by what a run sets: the kernels that it may use."""
        return kernels(self.program.run, self.plan.device)

    @contextmanager
    def open(self) -> Iterator[Step]:
        """Allocate the model; the result fetches, masks, computes gradients, clips and updates."""
        stage, device = self.program.stages[0], torch.device(self.plan.device)
        # Made here, since a run has its text on the disk.
        text = RandomText(stage, self.program.encoder.vocab_size)
        model = build(self.program, self.plan.device)
        model.compute_dtype = dtype_of(self.plan)
        update, done = first_step(self.program, model, self.plan), count()
        batches = text_feed(text, 0, UNBOUNDED_STEPS, device, update.corrupt)
        with keep_freed_memory(), batches as feed:

            def step() -> float:
                waited, index = 0.0, next(done)

                def look_ahead() -> None:
                    nonlocal waited
                    started = time.perf_counter()
                    feed.look_ahead()
                    waited += time.perf_counter() - started

                look_ahead()
                update(feed.take(), index, rate(stage, index), look_ahead)
                return waited

            yield step

    def counterpart(self) -> Counterpart:
        """transformers' model of the program, and the first batch as that reads it."""
        return counterpart(self.program, self.plan.microbatches[0])

    def gauge(self) -> "Gauge":
        """Measure this process on the step's device from now on."""
        return Gauge(torch.device(self.plan.device))

    def matmul_rate(self) -> float:
        """The best rate of a large square product here, in FLOP/s; takes about a second."""
        return machine.matmul_flops_per_second(torch.device(self.plan.device), dtype_of(self.plan))


class Gauge:
    """Measures of this process on a device: the end of its work, peak bytes, compiled graphs."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before, self._graphs = begin_peak(device), graphs_so_far()

    def finish(self) -> None:
        """Wait until all work that was queued is done."""
        machine.finish(self._device)

    def release(self) -> None:
        """Give memory that is not in use back to the device, for other processes."""
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    @property
    def peak_bytes(self) -> int | None:
        """The most memory since the beginning beyond that in use then; None if unknown."""
        return peak_beyond(self._device, self._before)

    @property
    def graphs(self) -> tuple[int, int]:
        """The graphs that were compiled since the beginning, and the breaks between them."""
        (graphs, breaks), (graphs_before, breaks_before) = graphs_so_far(), self._graphs
        return graphs - graphs_before, breaks - breaks_before


def graphs_so_far() -> tuple[int, int]:
    """Counts of torch's compiler: graphs, a later one is a recompilation; breaks between graphs."""
    from torch._dynamo.utils import counters  # the compiler takes a second to load

    return counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())
