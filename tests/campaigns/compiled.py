"""The compiled step against the eager one: every weight's gradient, over two ideas at a time.

    python -m tests.campaigns.compiled [--processes 2] [--most N] [--only TEXT]

Cases are a sample of all pairs of ideas (``ideas.py``) x way of running a step. Each compiles the
step of a toy of 4 layers and compares:

* fp32 without dropout: each weight's gradient with the eager step's, to 1e-3 of its largest entry;
* bf16: how far each is from the fp32 gradient, which may be twice the eager step's distance;
* with dropout, whose draws the compiler makes another way: the gradients of a quarter of the
  weights, another quarter in each case, with the loss' own finite difference under fixed draws,
  along the direction of the eager step's gradient, to 5%.

Prints what differs in each case, and exits 1 if anything does.
"""

import itertools
import os
import platform
import random
import re
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bertc.api import resolve
from bertc.base.diagnostics import SpecError
from bertc.ir.program.resolved import Resolved
from bertc.learn.objectives import Inputs, MicroBatch
from bertc.learn.step.feed import to_inputs
from bertc.learn.step.objective import divisors
from bertc.learn.step.step import TrainStep
from bertc.run.beginning.synthetic import PAD, SEP, RandomText
from tests.bench.rig import make_step
from tests.campaigns.ideas import AXES, written
from tests.campaigns.options import read_options
from tests.campaigns.pairs import material, pairs

WAYS = ("batch=8", "batch=8 microbatch=4", "recompute=on", "precision=bf16")
UNCOMPILED = frozenset(
    value
    for axis in ("vocab", "initializer", "optimizer", "batches", "stages", "init", "freeze")
    for value in AXES[axis]
)
"""Ideas that leave a step's graphs as they are, or are among WAYS."""


Gradients = dict[str, Tensor]


def cases(seed: int = 0) -> list[str]:
    """Specs of two ideas and a way of running a step, shuffled."""
    specs = list[str]()
    for pair, way in itertools.product(pairs(), WAYS):
        rounds = "bf16" in way and "dropout" in "".join(pair)  # no finite difference is so exact
        if UNCOMPILED.isdisjoint(pair) and ".tsv" not in "".join(pair) and not rounds:
            specs.append(written(*pair, way))
    random.Random(seed).shuffle(specs)
    return specs


def draws(resolved: Resolved) -> bool:
    """Whether a step drops anything out."""
    return bool(re.search(r'"(hidden|dropout)":0\.[1-9]', resolved.model_dump_json()))


def rows(resolved: Resolved, seed: int) -> Inputs:
    """Random tokens in rows of other lengths; packed ones hold two examples."""
    stage = resolved.stages[0]
    raw = RandomText(stage, resolved.encoder.vocab_size).train(seed)
    ids, half = raw.token_ids.copy(), stage.seq // 2
    draw = np.random.default_rng(seed)
    lengths = draw.integers(half + 4, stage.seq + 1, len(ids), dtype=np.int32)
    if stage.memory:
        lengths[:] = stage.seq
    lane = np.arange(stage.seq)
    ids[np.arange(len(ids)), lengths - 1] = SEP
    ids[lane >= lengths[:, None]] = PAD
    segments = raw.segment_ids * (lane < lengths[:, None])
    starts, labels = raw.starts.copy(), raw.pair_labels.copy()
    if starts.shape[1] > 1:
        ids[:, half - 1], ids[:, half] = SEP, ids[:, 0]
        starts[:, 1] = half
        labels[:, 1] = 1
        if stage.pairs != "none":
            ids[:, [half // 2, half + half // 4]] = SEP
            segments = ((lane % half) > half // 4) * (lane < lengths[:, None]).astype(np.uint8)
    raw = replace(
        raw, token_ids=ids, segment_ids=segments.astype(np.uint8), lengths=lengths, starts=starts,
        pair_labels=labels,
    )  # fmt: skip
    return to_inputs(raw, torch.device("cpu"))


def gradients(step: TrainStep, micro_batches: list[MicroBatch]) -> Gradients:
    """The gradient of each weight that has one, of a whole batch."""
    step.gradients(micro_batches, 0)
    return {
        name: weight.grad.detach().clone()
        for name, weight in step.parameters.items()
        if weight.grad is not None
    }


def differing(spec: str) -> tuple[int, dict[str, float]]:
    """How many weights have gradients, and how far those are off that should not be.

    Raises:
        SpecError: if the spec is refused.
    """
    torch.manual_seed(0)
    resolved = resolve(spec)
    stage = resolved.stages[0]
    microbatch = stage.microbatch or stage.batch
    compiled = make_step(resolved, microbatch, compiled=True)
    eager = make_step(resolved, microbatch)
    micro_batches = compiled.corrupt(rows(resolved, 1), stage.batch)[0]
    if resolved.run.precision == "bf16" or draws(resolved):
        # Rounding, and a weight that is moved, would let guesses fall otherwise: a loss that jumps
        # has no finite difference. The lowest chance is the first token's.
        micro_batches = [_with_first_guess(part) for part in micro_batches]
    ours, plain = gradients(compiled, micro_batches), gradients(eager, micro_batches)
    if ours.keys() != plain.keys():
        return len(plain), {name: float("inf") for name in ours.keys() ^ plain.keys()}
    if draws(resolved):
        off = _against_differences(spec, compiled, micro_batches, ours, plain)
    elif resolved.run.precision == "bf16":
        run = resolved.run.model_copy(update={"precision": "fp32"})
        exact = make_step(resolved.model_copy(update={"run": run}), microbatch)
        off = _against_exact(ours, plain, gradients(exact, micro_batches))
    else:
        off = _against_plain(ours, plain)
    return len(plain), {name: value for name, value in off.items() if not value <= 1}


def _with_first_guess(batch: MicroBatch) -> MicroBatch:
    guessed = {n: t._replace(chances=t.chances * 0) for n, t in batch.terms.items() if n == "rtd"}
    return batch._replace(terms={**batch.terms, **guessed})


def _against_plain(ours: Gradients, plain: Gradients) -> dict[str, float]:
    """Largest difference, in thousandths of the largest entry."""
    top = max(float(g.abs().max()) for g in plain.values())
    return {
        name: float((ours[name] - g).abs().max()) / (1e-3 * max(float(g.abs().max()), 1e-4 * top))
        for name, g in plain.items()
    }


def _against_exact(ours: Gradients, plain: Gradients, exact: Gradients) -> dict[str, float]:
    """Distance from the exact gradient, in that which is allowed: twice the eager step's."""
    top = max(float(g.norm()) for g in exact.values())
    return {
        name: float((ours[name] - g).norm())
        / (2 * float((plain[name] - g).norm()) + 0.02 * float(g.norm()) + 1e-4 * top)
        for name, g in exact.items()
    }


def _against_differences(
    spec: str, step: TrainStep, parts: list[MicroBatch], ours: Gradients, plain: Gradients
) -> dict[str, float]:
    """Gradients against finite differences of the loss with the same draws, in twentieths."""
    top = max(float(g.norm()) for g in plain.values())
    off, turn = {}, random.Random(spec)
    for name, gradient in plain.items():
        norm = float(gradient.norm())
        if norm < 1e-3 * top:  # too flat to measure: that it is small is held
            off[name] = float(ours[name].norm()) / (1e-2 * top)
            continue
        if turn.random() > 0.25:
            continue
        weight, direction = step.parameters[name], gradient / norm
        slope = float((ours[name] * direction).sum())
        width = min(1e-3 / norm, 0.05 * float(weight.detach().norm()) + 1e-4)
        up, down = (_moved(step, parts, weight, sign * direction * width) for sign in (1, -1))
        measured = (up - down) / (2 * width)
        allowed = 0.05 * max(abs(measured), 0.2 * norm) + 2e-6 / width  # and rounding
        off[name] = abs(slope - measured) / allowed
    return off


def _moved(step: TrainStep, micro_batches: list[MicroBatch], weight: Tensor, by: Tensor) -> float:
    """The loss of the batch where one weight is another."""
    before = weight.detach().clone()
    weight.detach().add_(by)
    sums, counts_t, _ = step.gradients(micro_batches, 0)
    weight.detach().copy_(before)
    weights = torch.tensor([term.weight for term in step.stage.objective])
    factors = weights / divisors(step.stage, counts_t)
    return float((torch.stack(sums).double().sum(0) * factors).sum())


def outcome(spec: str) -> tuple[str, dict[str, float]]:
    """Try one case: how it went in words, and the weights that are off, and how far."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.compiler.reset()
    start = time.perf_counter()
    try:
        weights, off = differing(spec)
    except SpecError as error:
        return error.diagnostics[0].message, {}
    except Exception as error:  # of whatever the compiler makes: the other cases go on
        return "failed", {f"{type(error).__name__}: {str(error)[:200]}": float("inf")}
    return f"{len(off)} of {weights} differ ({time.perf_counter() - start:.0f} s)", off


def main() -> int:
    options = read_options(__doc__, processes=os.cpu_count() or 1, most=100, only="")
    chosen = [spec for spec in cases() if options.only in spec][: options.most]
    print(f"{len(chosen)} cases, torch {torch.__version__}, {platform.machine()}", flush=True)
    differ = 0
    with tempfile.TemporaryDirectory() as folder:
        material(Path(folder))
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder  # inherited: no code of another day
        with get_context("spawn").Pool(options.processes, maxtasksperchild=6) as pool:
            for spec, (words, off) in zip(chosen, pool.imap(outcome, chosen), strict=True):
                differ += bool(off)
                print(f"{spec}: {words}", flush=True)
                for name, value in list(off.items())[:5]:
                    print(f"    {name}: {value:.3g} times what is allowed", flush=True)
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
