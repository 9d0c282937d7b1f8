"""``bertc build``: the model allocated, its whole training step compiled and run once, and kept."""

import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch._dynamo.utils import counters

from bertc.estimate.units import bytes_text
from bertc.interop import export_model
from bertc.ir.resolved import Resolved, Stage, model_weights
from bertc.nn import Model
from bertc.nn import build as allocate
from bertc.objectives import Inputs, Tables
from bertc.passes import Plan
from bertc.train.display import peak_memory_bytes
from bertc.train.machine import make_plan
from bertc.train.optimizers import make_rule, zero_moments
from bertc.train.step import TrainStep, make_objective
from bertc.train.tables import cumulative

SPECIALS = 5
"""Ids below this stand for the special tokens of a vocabulary that is yet to be learned."""


@dataclass(frozen=True)
class Trial:
    """What two training steps of a stage took, the first with compilation."""

    stage: str
    first_seconds: float
    second_seconds: float
    loss: float
    graphs: int
    graph_breaks: int
    recompiles: int


def build(resolved: Resolved, out: Path | None) -> str:
    """Build, compile and run the first stage's training step; write ``out``; say how it went.

    Rows of random tokens stand for the text, which is not read.

    Raises:
        MachineError: if the machine lacks the memory or the device.
        CannotWriteError: if the model folder cannot be written.
    """
    plan = make_plan(resolved)
    model = allocate(resolved, plan.device)
    tensors = {name: weight.detach().cpu().clone() for name, weight in model.named_parameters()}
    model.compute_dtype = torch.bfloat16 if plan.precision == "bf16" else torch.float32
    trial = _trial(resolved, resolved.stages[0], model.train(), plan)
    folder = out or Path("builds") / resolved.name
    exported = export_model(resolved, tensors, _Unlearned(resolved), folder)
    return "\n".join([*_lines(resolved, plan, trial), exported.summary()])


def _trial(resolved: Resolved, stage: Stage, model: Model, plan: Plan) -> Trial:
    weights = dict(model.named_parameters())
    table = model_weights(resolved)
    model.encoder.recompute = plan.recompute[0]
    rule = make_rule(stage.optimizer, table, weights, zero_moments(weights), 0, compiled=True)
    objective = make_objective(model, stage, resolved.encoder, compiled=True)
    device, rows = torch.device(plan.device), plan.microbatches[0]
    tables = _tables(resolved.encoder.vocab_size, device)
    step = TrainStep(model, stage, tables, rule, objective, rows, resolved.run.seed)
    counters.clear()
    first_seconds, loss = _timed(step, _rows(stage, resolved, rows, 0, device), stage)
    graphs = counters["stats"]["unique_graphs"]
    second_seconds, _ = _timed(step, _rows(stage, resolved, rows, rows, device), stage)
    return Trial(
        stage=stage.name,
        first_seconds=first_seconds,
        second_seconds=second_seconds,
        loss=loss,
        graphs=graphs,
        graph_breaks=sum(counters["graph_break"].values()),
        recompiles=counters["stats"]["unique_graphs"] - graphs,
    )


def _timed(step: TrainStep, inputs: Inputs, stage: Stage) -> tuple[float, float]:
    start = time.perf_counter()
    result = step(step.read(inputs), 0, stage.optimizer.lr)
    return time.perf_counter() - start, result.loss


def _rows(stage: Stage, resolved: Resolved, rows: int, first: int, device: torch.device) -> Inputs:
    """``rows`` examples of random ordinary tokens between two special ones."""
    generator = torch.Generator().manual_seed(first)
    shape, vocab = (rows, stage.seq), resolved.encoder.vocab_size
    token_ids = torch.randint(SPECIALS, vocab, shape, generator=generator)
    token_ids[:, 0], token_ids[:, -1] = 2, 3
    zeros = torch.zeros(rows, dtype=torch.long)
    starts = torch.full((rows, stage.texts), stage.seq)
    starts[:, 0] = 0
    inputs = Inputs(
        token_ids=token_ids,
        segment_ids=torch.zeros_like(token_ids),
        lengths=torch.full_like(zeros, stage.seq),
        example_ids=torch.arange(first, first + rows),
        copies=zeros,
        starts=starts,
        pair_labels=torch.zeros_like(starts),
    )
    return Inputs(*(tensor.to(device) for tensor in inputs))


def _tables(vocab_size: int, device: torch.device) -> Tables:
    """A vocabulary whose first ids are special and whose tokens are whole words, all as common."""
    special = torch.arange(vocab_size) < SPECIALS
    return Tables(
        size=vocab_size,
        pad=0,
        cls=2,
        sep=3,
        mask=4,
        word_start=torch.ones_like(special, device=device),
        special=special.to(device),
        unigram_cdf=cumulative((~special).double()).to(device),
    )


class _Unlearned:
    """The vocabulary of a model that has read nothing yet: there are no files to write."""

    cls = None
    sep = None

    def __init__(self, resolved: Resolved) -> None:
        # RoBERTa's positions start after the padding id (fairseq, LearnedPositionalEmbedding).
        self.pad = max(0, resolved.encoder.positions.offset - 1)

    def save(self, folder: Path) -> None:
        """Write nothing."""


def _lines(resolved: Resolved, plan: Plan, trial: Trial) -> list[str]:
    stage = resolved.stages[0]
    tokens = plan.microbatches[0] * stage.seq
    return [
        f"{resolved.name}: {sum(w.numel for w in model_weights(resolved)):,} parameters, "
        "built as counted",
        f"plan: {plan.device}, {plan.precision}, micro-batches of "
        f"{plan.microbatches[0]} x {stage.seq} tokens"
        + "".join(f"; {reason}" for reason in plan.reasons),
        f"step: {trial.graphs} graphs, {trial.graph_breaks} graph breaks, "
        f"{trial.recompiles} recompiles on the second batch",
        f"time: first step {trial.first_seconds:.1f} s with compilation, second "
        f"{trial.second_seconds:.3f} s, {tokens / trial.second_seconds:,.0f} tokens/s",
        f"memory: {bytes_text(peak_memory_bytes(plan.device))} at the peak; loss {trial.loss:.3f}",
    ]
