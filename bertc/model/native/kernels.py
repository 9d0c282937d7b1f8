"""The C kernels as functions of tensors, one for each C function of the same name; dropout.

All tensors are contiguous. Arithmetic is in fp32, results have the dtype of the inputs.
"""

import ctypes
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from bertc.model.native.library import ValueType, load_library

MAX_ROW_WIDTH = 16384
"""The most elements of a row that the kernels can work on."""
PARTIAL_SUMS = 16
"""Partial sums of a vector's gradient: fixed, so that threads do not change the result."""
LEVELS = 1 << 16
"""Steps in which a dropout rate is rounded."""
_TYPES: dict[torch.dtype, ValueType] = {torch.bfloat16: "bf16", torch.float32: "fp32"}
_POINTER, _LONG, _WORD = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64
_INT, _FLOAT = ctypes.c_int, ctypes.c_float
_DROPPED = (_WORD, _INT, _FLOAT, _INT)
_SIGNATURES = {
    "dropout": (_POINTER,) * 2 + (_LONG,) * 2 + _DROPPED,
    "gated": (_POINTER,) * 2 + (_LONG,) * 2 + (_INT,) * 2,
    "gated_backward": (_POINTER,) * 3 + (_LONG,) * 2 + (_INT,) * 2,
    "gelu": (_POINTER,) * 3 + (_LONG,) * 2 + (_INT,),
    "gelu_backward": (_POINTER,) * 5 + (_LONG,) * 3 + (_INT,),
    "norm": (_POINTER,) * 8 + (_LONG, _LONG, _FLOAT, _INT, *_DROPPED),
    "norm_backward": (_POINTER,) * 10 + (_LONG,) * 3 + (_INT, *_DROPPED),
    "softmax": (_POINTER,) * 4 + (_LONG,) * 7 + (_FLOAT, *_DROPPED),
    "softmax_backward": (_POINTER,) * 3 + (_LONG,) * 2 + _DROPPED,
    "turn": (_POINTER,) * 4 + (_LONG,) * 9 + (_INT, _FLOAT, _INT),
    "vocabulary_loss": (_POINTER,) * 8 + (_LONG,) * 3 + (_INT,),
}


class Dropped(NamedTuple):
    """A dropout mask by its ``seed``: rate ``level`` / 65536, ``scale`` of the elements kept."""

    seed: int
    level: int
    scale: float


def drop(rate: float) -> Dropped:
    """Draw a dropout mask from torch's default generator; ``rate`` is rounded to 1 / 65536."""
    if rate == 0:
        return Dropped(0, 0, 1.0)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    return Dropped(seed, round(rate * LEVELS), 1 / (1 - rate))


def kernels_for(x: Tensor, *weights: Tensor, width: int = 1) -> "Kernels | None":
    """The kernels for training on a tensor with rows of ``width``; None if torch's are used."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled() or width > MAX_ROW_WIDTH:
        return None
    # Subclasses have no memory of their own at data_ptr: sharded weights, fake tensors.
    plain = all(type(tensor) in (Tensor, torch.nn.Parameter) for tensor in (x, *weights))
    if x.device.type != "cpu" or not plain:
        return None
    value = _TYPES.get(x.dtype)
    return None if value is None else _kernels(value)


def missing(value: ValueType) -> str:
    """The reason why there are no kernels for this dtype; empty if there are."""
    library = load_library(value)
    return library if isinstance(library, str) else ""


@cache
def _kernels(value: ValueType) -> "Kernels | None":
    library = load_library(value)
    return None if isinstance(library, str) else Kernels(library)


class Kernels:
    """The kernels for tensors of one dtype."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        for name, signature in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = signature, None

    def _run(self, name: str, tensors: Iterable[Tensor | None], *numbers: float) -> None:
        """Call a function with the tensors' memory, numbers, and the number of threads."""
        pointers = (None if tensor is None else tensor.data_ptr() for tensor in tensors)
        getattr(self._library, name)(*pointers, *numbers, torch.get_num_threads())

    def dropout(self, x: Tensor, dropped: Dropped, width: int = 1024) -> Tensor:
        """x after dropout, in rows of ``width``; the last row may be shorter."""
        y = torch.empty_like(x)
        self._run("dropout", (x, y), x.numel(), width, *dropped)
        return y

    def gelu(self, x: Tensor, bias: Tensor) -> Tensor:
        """GELU of x + bias in the tanh approximation; ``bias`` (width,) is in fp32."""
        y, width = torch.empty_like(x), x.shape[-1]
        self._run("gelu", (x, bias, y), x.numel() // width, width)
        return y

    def gelu_backward(self, x: Tensor, bias: Tensor, upstream: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of x and of the bias."""
        grad, width = torch.empty_like(x), x.shape[-1]
        bias_grads = torch.empty(PARTIAL_SUMS, width)
        tensors = (x, bias, upstream.contiguous(), grad, bias_grads)
        self._run("gelu_backward", tensors, x.numel() // width, width, PARTIAL_SUMS)
        return grad, bias_grads.sum(0)

    def gated(self, x: Tensor, kind: int) -> Tensor:
        """The activation of the first half of the last axis, times the second."""
        y = torch.empty(*x.shape[:-1], width := x.shape[-1] // 2, dtype=x.dtype)
        self._run("gated", (x, y), y.numel() // width, width, kind)
        return y

    def gated_backward(self, x: Tensor, upstream: Tensor, kind: int) -> Tensor:
        """The gradient of x."""
        grad, width = torch.empty_like(x), upstream.shape[-1]
        rows = upstream.numel() // width
        self._run("gated_backward", (x, upstream.contiguous(), grad), rows, width, kind)
        return grad

    def turn(self, cosines: Tensor, sines: Tensor, x: Tensor, adjacent: bool, way: float) -> Tensor:
        """Pairs of numbers of heads (b, l, n, d), turned by angles (#b, l, 1, p) in fp32.

        ``adjacent``: pairs are neighbours, else halves. ``way``: 1, or -1 to turn back.
        """
        x = x if x.stride(3) == 1 else x.contiguous()
        y, steps = torch.empty(x.shape, dtype=x.dtype), x.stride()[:3]
        angle_step = 0 if len(cosines) == 1 else cosines.stride(0)
        sizes = (*x.shape, cosines.shape[-1], *steps, angle_step)
        self._run("turn", (x, cosines, sines, y), *sizes, adjacent, way)
        return y

    def norm(
        self,
        x: Tensor,
        y: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        eps: float,
        centred: bool,
        dropped: Dropped,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """norm(x + dropout(y)) over the last axis; then the sums, their means and 1 / deviations.

        ``weight`` and ``bias`` are in fp32. Means that are not taken off (RMS norm) are 0.
        """
        width = x.shape[-1]
        rows = x.numel() // width
        sums, out = x if y is None else torch.empty_like(x), torch.empty_like(x)
        means, rates = torch.empty(rows), torch.empty(rows)
        tensors = (x, y, weight, bias, sums, out, means, rates)
        self._run("norm", tensors, rows, width, eps, centred, *dropped)
        return out, sums, means, rates

    def norm_backward(
        self,
        upstream: Tensor,
        sums_upstream: Tensor | None,
        sums: Tensor,
        means: Tensor,
        rates: Tensor,
        weight: Tensor,
        centred: bool,
        dropped: Dropped,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The gradients of x, y, weight and bias; ``sums_upstream`` is that of the sums, if any."""
        width, rows = sums.shape[-1], len(means)
        x_grad = torch.empty_like(sums)
        y_grad = torch.empty_like(sums) if dropped.level else x_grad
        weight_grads, bias_grads = torch.empty(2, PARTIAL_SUMS, width)
        read = (upstream, sums_upstream, sums, means, rates, weight)
        written = (x_grad, y_grad, weight_grads, bias_grads)
        sizes = (rows, width, PARTIAL_SUMS)
        self._run("norm_backward", (*read, *written), *sizes, centred, *dropped)
        return x_grad, y_grad, weight_grads.sum(0), bias_grads.sum(0)

    def softmax(
        self, scores: Tensor, added: Tensor | None, by: float, dropped: Dropped
    ) -> tuple[Tensor, Tensor]:
        """softmax(by * scores + added), both (b, n, q, s), before and after dropout."""
        probabilities, after_dropout = torch.empty_like(scores), torch.empty_like(scores)
        if added is not None and added.stride(3) != 1:
            added = added.contiguous()
        steps = (0, 0, 0) if added is None else added.stride()[:3]
        tensors = (scores, added, probabilities, after_dropout)
        self._run("softmax", tensors, *scores.shape, *steps, by, *dropped)
        return probabilities, after_dropout

    def softmax_backward(
        self, probabilities: Tensor, grad: Tensor, dropped: Dropped
    ) -> tuple[Tensor, Tensor]:
        """The gradient of by * scores, in place of ``grad``, and probabilities after dropout."""
        after_dropout, width = torch.empty_like(probabilities), probabilities.shape[-1]
        rows = probabilities.numel() // width
        self._run("softmax_backward", (probabilities, grad, after_dropout), rows, width, *dropped)
        return grad, after_dropout

    def vocabulary_loss(
        self, scores: Tensor, bias: Tensor, targets: Tensor, uniforms: Tensor | None, tokens: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Losses, hits and sampled ids (n,); ``scores`` (n, v) are replaced by their gradient.

        ``bias`` (v,) is in fp32. ``uniforms`` (n,) select the sampled ids, if given.
        """
        rows, ids = scores.shape
        losses, hits = torch.empty(rows), torch.empty(rows, dtype=torch.bool)
        sampled = None if uniforms is None else torch.empty_like(targets)
        uniforms = None if uniforms is None else uniforms.double()
        scratch = torch.empty(torch.get_num_threads(), ids)
        tensors = (scores, bias, targets, uniforms, losses, hits, sampled, scratch)
        self._run("vocabulary_loss", tensors, rows, ids, tokens)
        return losses, hits, sampled


_DRAWS_PER_WORD = 4


def dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """Zero each element with probability ``rate`` and scale the rest by 1 / (1 - rate); any shape.

    An eager CPU draws one seed, from which backward repeats the mask, and rounds the rate to
    1 / 65536: the library draws each element, a sixth of a training step.
    """
    if not training or rate == 0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling() or rate == 1:
        dropped = F.dropout(x, rate, training=True)
        if x.is_cuda and x.dtype == torch.bfloat16 and not torch.compiler.is_compiling():
            # In bf16 the library's kernel uses up to four draws more than it counts, and the next
            # call would repeat them (seen in torch 2.11); one number counts as four draws.
            x.new_empty(1).uniform_()
        return dropped
    apply = partial(drop_out, dropped=drop(rate), kernels=kernels_for(x))
    return with_gradient(apply, apply, (), x)


def drop_out(x: Tensor, dropped: Dropped, kernels: Kernels | None) -> Tensor:
    """Apply a dropout to ``x``; equal seeds and sizes give equal masks."""
    if not dropped.level:
        return x
    return x * _kept(x, dropped) if kernels is None else kernels.dropout(x.contiguous(), dropped)


def with_gradient(
    run: Callable[..., Tensor],
    back: Callable[..., Tensor | tuple[Tensor, ...]],
    saved: Iterable[Tensor],
    *inputs: Tensor,
) -> Tensor:
    """``run`` of inputs; ``back`` makes their gradients of ``saved`` tensors and that upstream."""
    return cast(Tensor, _Function.apply(run, back, saved, *inputs))  # type: ignore[no-untyped-call]


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: Any, back: Any, saved: Iterable[Tensor], *inputs: Tensor) -> Any:
        ctx.back = back
        ctx.save_for_backward(*saved)
        return run(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.back(*ctx.saved_tensors, upstream)
        of_inputs = (gradients,) if isinstance(gradients, Tensor) else gradients
        return None, None, None, *of_inputs


def _kept(x: Tensor, dropped: Dropped) -> Tensor:
    """The scale at kept elements, 0 at dropped ones; a 64-bit word gives four draws."""
    generator = torch.Generator().manual_seed(dropped.seed)
    words = torch.empty(-(-x.numel() // _DRAWS_PER_WORD), dtype=torch.int64)
    words.random_(-(2**63), None, generator=generator)
    draws = words.view(torch.int16)[: x.numel()].view(x.shape)
    # Compared in place, the result has the draws' dtype, which the library vectorises.
    survives = draws.ge_(dropped.level - LEVELS // 2)
    return survives.to(x.dtype).mul_(dropped.scale)
