"""``bertc bench``: training steps of specs and of transformers' models, timed in turns.

A model of the same shape is trained the way transformers' users train it.

Axes: b batch, s sequence, n masked tokens, v token ids.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from bertc import Resolved, UsageError
from bertc.lab.bench.contender import Contender, Precision, Step, bertc
from bertc.lab.bench.measure import take_turns
from bertc.lab.bench.report import BenchReport
from bertc.lab_api import Stepper

IGNORED = -100
"""The label of a position that is not predicted (torch's cross entropy)."""


class PairLoss(NamedTuple):
    """The output of a pair, as of transformers' models."""

    loss: Tensor


class GuessingPair(nn.Module):
    """A masked language model and the detector of its guesses, trained as ELECTRA's.

    The detector has the embeddings of the generator, or its token table (Clark et al. 2020, 3).
    """

    def __init__(self, models: tuple[Any, ...], weights: tuple[float, ...], ties: str) -> None:
        super().__init__()
        (self.generator, self.detector), self.weights = models, weights
        if ties == "embeddings":
            self.detector.base_model.embeddings = self.generator.base_model.embeddings
        elif ties == "tokens":
            self.detector.set_input_embeddings(self.generator.get_input_embeddings())

    def forward(self, input_ids: Tensor, labels: Tensor, **shared: Tensor) -> PairLoss:
        """The weighted losses of ids (b, s) masked where labels (b, s) are not ``IGNORED``."""
        guessing = self.generator(input_ids=input_ids, labels=labels, **shared)
        masked_bs = labels != IGNORED
        with torch.no_grad():
            chances_nv = guessing.logits[masked_bs].float().softmax(1)
            filled_bs = input_ids.masked_scatter(masked_bs, chances_nv.multinomial(1))
            replaced_bs = filled_bs != torch.where(masked_bs, labels, input_ids)
        detecting = self.detector(input_ids=filled_bs, labels=replaced_bs.long(), **shared)
        return PairLoss(self.weights[0] * guessing.loss + self.weights[1] * detecting.loss)


def transformers(stepper: Stepper, compiled: bool) -> tuple[Contender, ...]:
    """Contenders: transformers in bertc's precision, on a CPU also in fp32, and compiled."""
    plan = stepper.plan
    stepper.counterpart()

    def contender(precision: Precision, compile: bool) -> Contender:
        @contextmanager
        def open() -> Iterator[Step]:
            torch.manual_seed(stepper.program.run.seed)
            model = model_of(stepper).to(plan.device).train()
            yield _step(stepper, model, precision, compile)

        title = f"transformers {precision}" + ", compiled" * compile
        return Contender(title, precision, compile, open, nullcontext, stepper)

    # On a GPU nobody trains in fp32 what can be trained in bf16: it takes six times as long.
    both = plan.precision == "bf16" and plan.device == "cpu"
    forms: list[tuple[Precision, bool]] = [("fp32", False)] if both else []
    forms.append((plan.precision, False))
    if compiled:
        forms.append((plan.precision, True))
    return tuple(contender(precision, compile) for precision, compile in forms)


def model_of(stepper: Stepper) -> nn.Module:
    """transformers' model; of two networks a generator and the detector of its guesses."""
    described, models = stepper.counterpart(), list[nn.Module]()
    for name, settings in described.models:
        model_class = getattr(import_module("transformers"), name)
        config = model_class.config_class(**settings, attn_implementation="sdpa")
        models.append(model_class(config))
    return GuessingPair((*models,), described.weights, described.ties) if models[1:] else models[0]


def _step(stepper: Stepper, model: Any, precision: Precision, compiled: bool) -> Step:
    rule, device = stepper.program.stages[0].optimizer, torch.device(stepper.plan.device)
    parts = [
        {name: tensor.to(device) for name, tensor in part.items()}
        for part in stepper.counterpart().batch
    ]
    optimizer = torch.optim.AdamW(model.parameters(), lr=rule.lr, fused=True)
    forward = torch.compile(model) if compiled else model
    weights = list(model.parameters())
    clipped = [[weight] for weight in weights] if rule.clip_per == "tensor" else [weights]

    def step() -> float:
        for part in parts:
            with torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16"):
                loss = forward(**part).loss / len(parts)
            loss.backward()
        for together in clipped if rule.clip else ():
            torch.nn.utils.clip_grad_norm_(together, rule.clip)
        optimizer.step()
        optimizer.zero_grad()
        return 0.0

    return step


BASELINE = "transformers"


def bench(
    *programs: Resolved, against: str | None = None, rounds: int = 7, compiled: bool = False
) -> BenchReport:
    """Time the first stage's step of programs on rows of random tokens; no text is read.

    Every contender takes one turn in every round. With ``compiled``, compiled forms are timed too.
    """
    steppers = [*map(Stepper, programs)]
    if against and programs[1:]:
        raise UsageError(f"{against} is timed next to one spec", help="leave --against out")
    if against not in (None, BASELINE):
        raise UsageError(f"cannot bench against {against}", help=f"--against {BASELINE}")
    make, stepper = partial(_contenders, steppers, bool(against), compiled), steppers[0]
    make()  # what has no model of this spec refuses it before the machine is measured

    before = stepper.matmul_rate()
    timings = take_turns(
        make, torch.device(stepper.plan.device), rounds, partial(print, file=sys.stderr)
    )
    matmul = max(before, stepper.matmul_rate())
    return BenchReport(timings, matmul, tuple(sys.argv[1:]))


def _contenders(
    steppers: Sequence[Stepper], with_baseline: bool, compiled: bool
) -> tuple[Contender, ...]:
    """bertc as a run would train here first, then the others."""
    ours = list[Contender]()
    for number, stepper in enumerate(steppers, 1):
        plan = stepper.plan
        title = f"bertc {plan.precision}" + f" ({number})" * bool(steppers[1:])
        ours.append(bertc(stepper, title + ", compiled" * plan.compile))
        if compiled and not plan.compile:
            ours.append(bertc(stepper.compiled, f"{title}, compiled"))
    return (*ours, *(transformers(steppers[0], compiled) if with_baseline else ()))
