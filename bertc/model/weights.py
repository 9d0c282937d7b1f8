"""Parameters from the weight table: basic modules, and initial values.

Axes: b batch, s sequence, h hidden.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, assert_never, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from bertc.ir import base
from bertc.ir.address import key
from bertc.ir.base import Weight
from bertc.ir.methods.adapter import OF_PAIRS, Lora
from bertc.model.native.kernels import dropout
from bertc.model.own import constructed

Table = Mapping[str, Weight]
"""Entries of the weight table by name."""


def parameter(weight: Weight) -> nn.Parameter:
    """An uninitialised parameter with the weight's shape."""
    return nn.Parameter(torch.empty(weight.shape))


class Linear(nn.Module):
    """``x W^T``, and ``+ b`` if the table has a bias, over the last axis, in the dtype of ``x``.

    If the table has the pair of an adapter, its product is added: ``pair`` says at which scale.
    """

    pair = Lora()
    __call__: Callable[..., Tensor]

    def __init__(self, table: Table, name: str) -> None:
        super().__init__()
        self.weight = parameter(table[f"{name}.weight"])
        bias = table.get(f"{name}.bias")
        self.bias = None if bias is None else parameter(bias)
        pair = [table.get(f"{name}.{map_name}") for map_name in OF_PAIRS]
        self.lora_a, self.lora_b = (None if w is None else parameter(w) for w in pair)

    def forward(self, x: Tensor) -> Tensor:
        """(..., inputs) to (..., outputs)."""
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return adapted((self,), x, F.linear(x, self.weight.to(x.dtype), bias))

    def extra_repr(self) -> str:
        """Widths, for printing."""
        outputs, inputs = self.weight.shape
        return f"{inputs} -> {outputs}"


class Embedding(nn.Module):
    """Rows of a table, looked up by index."""

    base: "Embedding | None" = None  # whose weight is added, without gradient

    def __init__(self, table: Table, name: str) -> None:
        super().__init__()
        self.weight = parameter(table[f"{name}.weight"])

    def forward(self, ids: Tensor) -> Tensor:
        """Integers (...) to rows (..., width), in the dtype of the table."""
        rows = look_up_rows(self.weight, ids)
        return rows if self.base is None else rows + look_up_rows(self.base.weight.detach(), ids)

    @property
    def table(self) -> Tensor:
        """The whole table."""
        return self.weight if self.base is None else self.weight + self.base.weight.detach()

    def extra_repr(self) -> str:
        """Rows and width, for printing."""
        rows, width = self.weight.shape
        return f"{rows} x {width}"


def look_up_rows(table: Tensor, ids: Tensor) -> Tensor:
    """Look up rows (..., width) of a table by integers (...).

    Compilers turn the gradient of a lookup into a scatter, or a sort with serial additions: so a
    table of two rows is a selection, and a larger one has a custom operator.
    """
    if not torch.compiler.is_dynamo_compiling():
        return F.embedding(ids, table)
    if len(table) == 2:
        first, second = table.unbind()
        return torch.where((ids == 1)[..., None], second, first)
    return cast(Tensor, _pick(table, ids))


@torch.library.custom_op("bertc::pick", mutates_args=())
def _pick(table: Tensor, ids: Tensor) -> Tensor:
    return F.embedding(ids, table)


@torch.library.custom_op("bertc::pick_gradient", mutates_args=())
def _pick_gradient(gradient: Tensor, ids: Tensor, rows: int) -> Tensor:
    summed = torch.ops.aten.embedding_dense_backward(gradient, ids, rows, -1, False)
    return cast(Tensor, summed)


@_pick.register_fake
def _(table: Tensor, ids: Tensor) -> Tensor:
    return table.new_empty(*ids.shape, table.shape[1])


@_pick_gradient.register_fake
def _(gradient: Tensor, ids: Tensor, rows: int) -> Tensor:
    return gradient.new_empty(rows, gradient.shape[-1])


def _keep_ids(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
    table, ids = inputs
    ctx.rows = len(table)
    ctx.save_for_backward(ids)


def _to_table(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    return _pick_gradient(gradient, *ctx.saved_tensors, ctx.rows), None


_pick.register_autograd(_to_table, setup_context=_keep_ids)


def fused_linear(maps: Sequence[Linear], x_bsh: Float[Tensor, "b s h"]) -> tuple[Tensor, ...]:
    """Several projections of the same states as one product: narrow ones underuse hardware."""
    return torch.split(join_linear(maps, x_bsh), [len(m.weight) for m in maps], dim=-1)


def join_linear(maps: Sequence[Linear], x_bsh: Float[Tensor, "b s h"]) -> Tensor:
    """The same projections side by side."""
    weight = torch.cat([m.weight for m in maps]).to(x_bsh.dtype)
    biases: list[Tensor] = [m.bias for m in maps if m.bias is not None]
    bias = torch.cat(biases).to(x_bsh.dtype) if biases else None
    return adapted(maps, x_bsh, F.linear(x_bsh, weight, bias))


def adapted(maps: Sequence[Linear], x: Tensor, y: Tensor) -> Tensor:
    """The maps ``y`` of states ``x``, side by side, with the products of their pairs if any."""
    firsts: list[Tensor] = [m.lora_a for m in maps if m.lora_a is not None]
    if not firsts:
        return y
    # Maps without a pair have columns of zeros.
    seconds = [m.weight.new_zeros(len(m.weight), 0) if m.lora_b is None else m.lora_b for m in maps]
    scale, rate, training = maps[0].pair.scale, maps[0].pair.dropout, maps[0].training
    inner = F.linear(dropout(x, rate, training), torch.cat(firsts).to(x.dtype))
    # In these rows MKL computes the gradient of so narrow a map 18 times as fast.
    second: Tensor = torch.block_diag(*(s.t() for s in seconds))  # type: ignore[no-untyped-call]
    return y + inner @ (scale * second).to(x.dtype)


def add_parameters(module: nn.Module, weights: Iterable[Weight]) -> None:
    """Add parameters to a module, in submodules according to the dots in their names."""
    for weight in weights:
        node = module
        *path, leaf = weight.name.split(".")
        for step in path:
            if not hasattr(node, step):
                node.add_module(step, nn.Module())
            node = node.get_submodule(step)
        node.register_parameter(leaf, parameter(weight))


def initialise(module: nn.Module, weights: Iterable[Weight], seed: int) -> None:
    """Set every parameter to its initial value, a function of (seed, weight name) only."""
    parameters = dict(module.named_parameters())
    with torch.no_grad():
        for weight in weights:
            _fill(parameters[weight.name], weight, seed)


def initial_values(weight: Weight, seed: int) -> Tensor:
    """A tensor of the weight's initial values."""
    tensor = torch.empty(weight.shape)
    _fill(tensor, weight, seed)
    return tensor


def _fill(tensor: Tensor, weight: Weight, seed: int) -> None:
    generator = torch.Generator().manual_seed(key(seed, "init", weight.name))
    match weight.init:
        case base.TruncatedNormal(std=std, cut=cut):
            nn.init.trunc_normal_(tensor, std=std, a=-cut * std, b=cut * std, generator=generator)
        case base.Normal(std=std):
            nn.init.normal_(tensor, std=std, generator=generator)
        case base.Glorot():
            fans = weight.shape if len(weight.shape) > 1 else (1, *weight.shape)
            bound = (6 / sum(fans)) ** 0.5
            nn.init.uniform_(tensor, -bound, bound, generator=generator)
        case base.FanIn() if weight.role == "table":
            nn.init.normal_(tensor, std=weight.shape[-1] ** -0.5, generator=generator)
        case base.FanIn():
            bound = weight.shape[-1] ** -0.5
            nn.init.uniform_(tensor, -bound, bound, generator=generator)
        case base.Uniform(bound=bound):
            nn.init.uniform_(tensor, -bound, bound, generator=generator)
        case base.Constant(value=value, std=std) if std:
            nn.init.normal_(tensor, mean=value, std=std, generator=generator)
        case base.Constant(value=value, last=last):
            nn.init.constant_(tensor, value)
            if last is not None:
                tensor[-1] = last
        case base.Constructed():
            tensor.copy_(constructed(weight.init, seed, weight.name))
        case _:
            assert_never(weight.init)
