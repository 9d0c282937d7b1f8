"""Rates of this CPU, operation by operation: the kernels of a training step, timed for an instant.

Each is timed forward and backward at a few sizes; the quickest of several tries counts, since other
work on a machine can only slow one.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from bertc.cost import estimate, this_cpu
from bertc.cost.machines.device import Calibration, Point, Rates
from bertc.ir.base import ONES, TruncatedNormal, Weight, affine
from bertc.ir.learning.optimizer import Adam, Lamb
from bertc.ir.network.ffn import Activation
from bertc.ir.network.norm import LayerNorm
from bertc.learn.objectives.softmax.cross_entropy import vocabulary_loss
from bertc.learn.optim.optimizers import make_rule, zero_moments
from bertc.machine.memory import keep_freed_memory
from bertc.model import Linear, dropout
from bertc.model.attention.attend import attend
from bertc.model.attention.masks import Mask
from bertc.model.ffn import activated
from bertc.model.norm import build_norm, sum_and_norm
from bertc.run.stepper import Stepper

TIMED_TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
MOST_TRIES, ENOUGH_SECONDS = 5, 0.4
RATE = 0.1
"""Dropout rate of the operations that are timed."""
NARROW = 16
"""Inner width of products that take next to no time beside what follows them."""


class Sizes:
    """Sizes of the operations that are timed; tests take smaller ones."""

    def __init__(self, scale: int = 1) -> None:
        self.rows, self.width = 4096 // scale, 512 // scale
        self.widths = tuple(width // scale for width in (64, 128, 256, 768))
        self.scores = (8 // min(scale, 8), 4, (64, 128, 512)[: 3 if scale == 1 else 1], (32, 64))
        self.vocab, self.predicted = 30_000 // scale, 512 // scale
        self.tensors, self.numel = 8, (1 << 20) // scale
        self.copied = (1 << 25) // scale
        self.others = (1 << 26) // scale  # more than most caches hold


def measure_rates(threads: tuple[int, ...], sizes: Sizes) -> Calibration:
    """Rates of this machine for each number of threads, of which torch keeps the last."""
    by_threads: dict[int, Rates] = {}
    with keep_freed_memory():
        for count in threads:
            torch.set_num_threads(count)
            by_threads[count] = _rates(sizes)
    return Calibration(torch=torch.__version__, threads=by_threads)


def _rates(sizes: Sizes) -> Rates:
    """Rates with as many threads as torch has now."""
    warm, cold = _Timer(), _Timer(sizes.others)
    source, target = torch.zeros(sizes.copied), torch.empty(sizes.copied, dtype=torch.bfloat16)
    return Rates(
        products={name: _products(warm, sizes, dtype) for name, dtype in TIMED_TYPES.items()},
        attention={
            precision + " dropout" * (rate > 0): _attention(warm, sizes, dtype, rate)
            for precision, dtype in TIMED_TYPES.items()
            for rate in (0.0, RATE)
        },
        elements={
            f"{name} {precision}": rate
            for precision, dtype in TIMED_TYPES.items()
            for name, rate in _elements(cold, sizes, dtype).items()
        },
        optimizers={"adam": _update(warm, sizes, Adam()), "lamb": _update(warm, sizes, Lamb())},
        bandwidth_bytes=6 * sizes.copied / warm.best(lambda: target.copy_(source)),  # 4 and 2 bytes
        start_seconds=_start(warm),
    )


class _Timer:
    """``others``: elements read before each call, so that its inputs lie in main memory alone."""

    def __init__(self, flushed: int = 0) -> None:
        # Other work disturbs the processor time of one thread less than the clock on the wall.
        self._clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
        self._others = torch.zeros(flushed)

    def best(self, function: Callable[[], object]) -> float:
        """Seconds of the quickest of several calls after a first one, fewer of slow ones."""
        function()
        seconds: list[float] = []
        while len(seconds) < MOST_TRIES and sum(seconds) < ENOUGH_SECONDS:
            self._others.sum()
            started = self._clock()
            function()
            seconds.append(max(self._clock() - started, 1e-9))
        return min(seconds)

    def both_ways(self, function: Callable[[], Tensor], *inputs: Tensor, part: float = 0) -> float:
        """Seconds of a function and its gradients less those of a part, at least a tenth."""
        upstream = torch.ones_like(function())
        seconds = self.best(lambda: torch.autograd.grad(function(), inputs, upstream))
        return max(seconds - part, 0.1 * seconds)


def _random(dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.randn(*shape).to(dtype).requires_grad_()


def _products(timer: _Timer, sizes: Sizes, dtype: torch.dtype) -> tuple[Point, ...]:
    """FLOPs a second of products as in layers of encoders, and as in heads over a vocabulary."""
    layers = [(sizes.rows // 2, width, 3 * width) for width in sizes.widths]
    heads = [(sizes.predicted, width, sizes.vocab) for width in sizes.widths[:3]]
    pair = (sizes.rows // 2, sizes.widths[-1], NARROW // 2)
    points = []
    for rows, inner, columns in (*layers, *heads, pair):
        inputs = [_random(dtype, *shape) for shape in ((rows, inner), (columns, inner), (columns,))]
        seconds = timer.both_ways(partial(F.linear, *inputs), *inputs)
        widths = min(inner, columns), max(inner, columns)
        points.append(Point(at=widths, rate=6 * rows * inner * columns / seconds))
    return tuple(points)


def _attention(timer: _Timer, sizes: Sizes, dtype: torch.dtype, rate: float) -> tuple[Point, ...]:
    rows, heads, lengths, head_widths = sizes.scores
    points = []
    for keys, head_dim in product(lengths, head_widths):
        q, k, v = (_random(dtype, rows, heads, keys, head_dim) for _ in range(3))
        seconds = timer.both_ways(partial(attend, q, k, v, Mask(), rate), q, k, v)
        points.append(Point(at=(keys, head_dim), rate=rows * heads * keys**2 / seconds))
    return tuple(points)


def _elements(timer: _Timer, sizes: Sizes, dtype: torch.dtype) -> dict[str, float]:
    """Elements a second of every function that is no product."""
    rows, width = sizes.rows, sizes.width
    x, y, narrow = (_random(dtype, rows, wide) for wide in (width, width, NARROW))
    node = LayerNorm(eps=1e-12)
    norm = build_norm({w.name: w for w in node.weights("norm", "hidden", width)}, "norm", node)
    table = affine("map", ("ffn", width), ("hidden", NARROW), TruncatedNormal(), "ffn")
    linear = Linear({weight.name: weight for weight in table}, "map")
    for parameter in (*norm.parameters(), *linear.parameters()):
        torch.nn.init.ones_(parameter)
    seconds = {
        "norm": timer.both_ways(lambda: norm(x), x),
        "norm of sum": timer.both_ways(lambda: sum_and_norm(norm, x, y, RATE)[1], x),
        "dropout": timer.both_ways(lambda: dropout(x, RATE, True), x),
        "add": timer.both_ways(lambda: x + y, x),
    }
    # As the layers do it, behind a product, whose time is taken off.
    product = timer.both_ways(lambda: linear(narrow), narrow)
    for kind in get_args(Activation):
        activation = partial(activated, kind, linear, narrow)
        seconds[kind] = timer.both_ways(activation, narrow, part=product)
    by_kind = {name: rows * width / spent for name, spent in seconds.items()}
    values, ids = _random(torch.float32, sizes.vocab, width // 4), torch.randint(0, rows, (rows,))
    spent = timer.both_ways(lambda: F.embedding(ids, values), values)
    by_kind["lookup"] = (rows + sizes.vocab) * values.shape[1] / spent
    # Scores without the products that make them.
    rows, vocab = sizes.predicted, sizes.vocab
    x, values = _random(dtype, rows, NARROW), _random(dtype, vocab, NARROW)
    bias, targets = torch.zeros(vocab), torch.randint(0, vocab, (rows,))
    product = timer.both_ways(lambda: F.linear(x, values), x, values)
    spent = timer.both_ways(lambda: vocabulary_loss(x, values, bias, targets)[0], x, part=product)
    return by_kind | {"loss": rows * vocab / spent}


def _update(timer: _Timer, sizes: Sizes, optimizer: Adam | Lamb) -> float:
    """Weights a second that a rule moves."""
    names, shape = (f"{n}.weight" for n in range(sizes.tensors)), (sizes.numel,)
    table = tuple(Weight(n, shape, ("hidden",), ONES, "ffn", "matrix") for n in names)
    weights = {w.name: torch.nn.Parameter(torch.ones(w.shape)) for w in table}
    for weight in weights.values():
        weight.grad = torch.full_like(weight, 1e-3)
    rule = make_rule(optimizer, table, weights, zero_moments(optimizer, table, weights), 0)
    return sizes.tensors * sizes.numel / timer.best(partial(rule.update, 1e-6))


def _start(timer: _Timer) -> float:
    """Seconds to start an operation: those of a step on next to nothing, by its operations."""
    stepper = Stepper.small("cpu", "fp32")
    slow = replace(this_cpu(), rates=None, launch_seconds=1.0)
    starts = round(estimate(stepper.program, slow).time.seconds_per_step)
    with stepper.turn(), stepper.open() as step:
        return timer.best(step) / starts
