"""Parts of the user's own as modules: their class from its source, and its place in a network."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from bertc.base.own_code import load_class
from bertc.ir.address import key
from bertc.ir.base import Constructed, Weight
from bertc.ir.own import Own


def construct(part: Own, sizes: Mapping[Any, int], seed: int = 0) -> nn.Module:
    """The user's module with random numbers of ``seed``, which leaves those of the process."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        arguments = {**part.chosen(sizes), **dict(part.arguments)}
        made: nn.Module = load_class(part.source, part.code)(**arguments)
    vars(made)["written"] = part, arguments  # for files that have its source
    return made


def construct_from(table: Mapping[str, Weight], name: str, part: Own) -> nn.Module:
    """The user's module for the weights that a table has below a name, which know its sizes."""
    init = next((weight.init for n, weight in table.items() if n.startswith(f"{name}.")), None)
    if not isinstance(init, Constructed):
        return construct(part, dict(zip(part.asks, part.recordings[0].sizes, strict=True)))
    return construct(init.part, dict(zip(init.part.asks, init.sizes, strict=True)))


def constructed(init: Constructed, seed: int, weight: str) -> Tensor:
    """The first value of a weight, which depends on the seed and the place of its part."""
    sizes = dict(zip(init.part.asks, init.sizes, strict=True))
    with torch.device("cpu"):
        made = construct(init.part, sizes, key(seed, "init", weight.removesuffix(init.name)))
    return made.get_parameter(init.name).detach()


class OwnModule(nn.Module):
    """A module of the user's own where a built-in part is otherwise."""

    def __init__(self, table: Mapping[str, Weight], name: str, part: Own) -> None:
        super().__init__()
        self.own = construct_from(table, f"{name}.own", part)

    def forward(self, x: Tensor) -> Tensor:
        """States (..., h) to states (..., h)."""
        return call_own(self.own, x)


def written_as(module: nn.Module) -> tuple[Own, dict[str, Any]] | None:
    """The part that a module of the user is, and what its constructor got; None of others."""
    return vars(module).get("written")


def call_own(module: nn.Module, x: Tensor, *arguments: Any, **named: Tensor) -> Tensor:
    """Call a user's module on states (b, s, h), with its weights in their type."""
    weights = {n: w.to(x.dtype) for n, w in module.named_parameters() if w.dtype != x.dtype}
    if not weights:
        return cast(Tensor, module(x, *arguments, **named))
    return cast(Tensor, functional_call(module, weights, (x, *arguments), named))
