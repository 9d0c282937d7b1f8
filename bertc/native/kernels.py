"""The kernels as functions of tensors, each beside the C function of its name.

All tensors are contiguous. Arithmetic is in fp32, results have the type of what is read.
"""

import ctypes
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from bertc.native.library import Value, load

WIDEST = 16384
"""Elements of a row that the kernels can work on."""
PARTS = 16
"""Sums that gradients of vectors are made of, whatever the number of threads."""
LEVELS = 1 << 16
_TYPES: dict[torch.dtype, Value] = {torch.bfloat16: "bf16", torch.float32: "fp32"}
_POINTER, _LONG, _WORD = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64
_INT, _FLOAT = ctypes.c_int, ctypes.c_float
_DROPPED = (_WORD, _INT, _FLOAT, _INT)
_SIGNATURES = {
    "dropout": (_POINTER,) * 2 + (_LONG,) * 2 + _DROPPED,
    "gelu": (_POINTER,) * 3 + (_LONG,) * 2 + (_INT,),
    "gelu_backward": (_POINTER,) * 5 + (_LONG,) * 3 + (_INT,),
    "norm": (_POINTER,) * 8 + (_LONG, _LONG, _FLOAT, *_DROPPED),
    "norm_backward": (_POINTER,) * 9 + (_LONG,) * 3 + _DROPPED,
    "softmax": (_POINTER,) * 4 + (_LONG,) * 7 + (_FLOAT, *_DROPPED),
    "softmax_backward": (_POINTER,) * 3 + (_LONG,) * 2 + _DROPPED,
    "vocabulary_loss": (_POINTER,) * 8 + (_LONG,) * 3 + (_INT,),
}


class Dropped(NamedTuple):
    """Which elements are dropped follows from ``seed``; ``level`` of 65536 of them are."""

    seed: int
    level: int
    scale: float


def drop(rate: float) -> Dropped:
    """Dropout at ``rate``, which is rounded to 1 / 65536; draws from torch's default generator."""
    if rate == 0:
        return Dropped(0, 0, 1.0)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    return Dropped(seed, round(rate * LEVELS), 1 / (1 - rate))


def kernels_for(x: Tensor, *weights: Tensor, width: int = 1) -> "Kernels | None":
    """The kernels for a tensor that is trained on, in rows of ``width``; None if torch's serve."""
    if torch.compiler.is_compiling() or not torch.is_grad_enabled() or width > WIDEST:
        return None
    # Subclasses have nothing at their address: sharded weights, and tensors without values.
    plain = all(type(tensor) in (Tensor, torch.nn.Parameter) for tensor in (x, *weights))
    if x.device.type != "cpu" or not plain:
        return None
    value = _TYPES.get(x.dtype)
    return None if value is None else _kernels(value)


def missing(value: Value) -> str:
    """Why there are no kernels for tensors of this type; empty if there are."""
    return load(value).missing


@cache
def _kernels(value: Value) -> "Kernels | None":
    library = load(value).library
    return None if library is None else Kernels(library)


class Kernels:
    """The kernels for tensors of one type."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        for name, signature in _SIGNATURES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = signature, None

    def dropout(self, x: Tensor, dropped: Dropped, width: int = 1024) -> Tensor:
        """Scale what stays of x, in rows of ``width``, the last of which may be shorter."""
        y = torch.empty_like(x)
        self._library.dropout(
            x.data_ptr(), y.data_ptr(), x.numel(), width, *dropped, torch.get_num_threads()
        )
        return y

    def gelu(self, x: Tensor, bias: Tensor) -> Tensor:
        """GELU of x + bias, in its approximation with tanh; the bias (width,) is in fp32."""
        y, width = torch.empty_like(x), x.shape[-1]
        pointers = (t.data_ptr() for t in (x, bias, y))
        self._library.gelu(*pointers, x.numel() // width, width, torch.get_num_threads())
        return y

    def gelu_backward(self, x: Tensor, bias: Tensor, upstream: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients of x and of the bias."""
        grad, width = torch.empty_like(x), x.shape[-1]
        bias_grads = torch.empty(PARTS, width)
        pointers = (t.data_ptr() for t in (x, bias, upstream, grad, bias_grads))
        self._library.gelu_backward(
            *pointers, x.numel() // width, width, PARTS, torch.get_num_threads()
        )
        return grad, bias_grads.sum(0)

    def norm(
        self, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, eps: float, dropped: Dropped
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """norm(x + dropout(y)) over the last axis; the sums, their means, 1 / their deviations.

        ``weight`` and ``bias`` are in fp32.
        """
        width = x.shape[-1]
        rows = x.numel() // width
        sums, out = torch.empty_like(x), torch.empty_like(x)
        means, rates = torch.empty(rows), torch.empty(rows)
        tensors = (x, y, weight, bias, sums, out, means, rates)
        pointers = (t.data_ptr() for t in tensors)
        self._library.norm(*pointers, rows, width, eps, *dropped, torch.get_num_threads())
        return out, sums, means, rates

    def norm_backward(
        self,
        upstream: Tensor,
        sums: Tensor,
        means: Tensor,
        rates: Tensor,
        weight: Tensor,
        dropped: Dropped,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The gradients of x, y, weight and bias."""
        width, rows = sums.shape[-1], len(means)
        x_grad = torch.empty_like(sums)
        y_grad = torch.empty_like(sums) if dropped.level else x_grad
        weight_grads, bias_grads = torch.empty(2, PARTS, width)
        tensors = (upstream, sums, means, rates, weight, x_grad, y_grad, weight_grads, bias_grads)
        pointers = (t.data_ptr() for t in tensors)
        self._library.norm_backward(
            *pointers, rows, width, PARTS, *dropped, torch.get_num_threads()
        )
        return x_grad, y_grad, weight_grads.sum(0), bias_grads.sum(0)

    def softmax(
        self, scores: Tensor, added: Tensor | None, by: float, dropped: Dropped
    ) -> tuple[Tensor, Tensor]:
        """softmax(by * scores + added) of scores (b, n, q, s), before and after dropout.

        ``added`` is (b, n, q, s), expanded or not.
        """
        chances, left = torch.empty_like(scores), torch.empty_like(scores)
        if added is not None and added.stride(3) != 1:
            added = added.contiguous()
        steps = (0, 0, 0) if added is None else added.stride()[:3]
        tensors = (scores, added, chances, left)
        pointers = (None if t is None else t.data_ptr() for t in tensors)
        self._library.softmax(
            *pointers, *scores.shape, *steps, by, *dropped, torch.get_num_threads()
        )
        return chances, left

    def softmax_backward(
        self, chances: Tensor, grad: Tensor, dropped: Dropped
    ) -> tuple[Tensor, Tensor]:
        """The gradient of by * scores, in place of ``grad``, and what dropout had left."""
        left, width = torch.empty_like(chances), chances.shape[-1]
        pointers = (chances.data_ptr(), grad.data_ptr(), left.data_ptr())
        self._library.softmax_backward(
            *pointers, chances.numel() // width, width, *dropped, torch.get_num_threads()
        )
        return grad, left

    def vocabulary_loss(
        self, scores: Tensor, bias: Tensor, targets: Tensor, chances: Tensor | None, tokens: int
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Losses (n,), hits (n,) and drawn ids (n,) of scores (n, v), which become their gradient.

        ``bias`` (v,) is in fp32.
        """
        (rows, ids), threads = scores.shape, torch.get_num_threads()
        losses, hits = torch.empty(rows), torch.empty(rows, dtype=torch.bool)
        drawn = None if chances is None else torch.empty_like(targets)
        chances = None if chances is None else chances.double()
        room = torch.empty(threads, ids)
        tensors = (scores, bias, targets, chances, losses, hits, drawn, room)
        pointers = (None if t is None else t.data_ptr() for t in tensors)
        self._library.vocabulary_loss(*pointers, rows, ids, tokens, threads)
        return losses, hits, drawn
