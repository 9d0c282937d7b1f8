"""Parts of the user's own: as modules in a network, and tried out, as rules and schedules are."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from inspect import signature
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from bertc.base.own_code import RefusedError, load_class, make
from bertc.ir.address import key
from bertc.ir.base import Constructed, Weight
from bertc.ir.learning.optimizer import OwnRule
from bertc.ir.learning.schedule import OwnSchedule
from bertc.ir.own import Own, OwnClass

TextOf = Callable[[int], str]


def construct(part: Own, sizes: Mapping[Any, int], seed: int = 0) -> nn.Module:
    """The user's module with random numbers of ``seed``, which leaves those of the process."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        of_class = load_class(part.source, part.code)
        arguments = {**part.chosen(sizes), **dict(part.arguments)}
        for name, known in signature(of_class).parameters.items():
            if known.annotation in (float, "float") and type(arguments.get(name)) is int:
                arguments[name] = float(arguments[name])  # 2.0 is written as 2
        module: nn.Module = of_class(**arguments)
    vars(module)["written"] = part, arguments  # for files that have its source
    return module


def refuse_weights(module: nn.Module) -> None:
    """Refuse buffers, weights without a gradient, and modules in a plain list."""
    for name, _ in module.named_buffers():
        raise RefusedError(f"it has the buffer {name}: make that in forward, on the device of x")
    for name, weight in module.named_parameters():
        if not weight.numel() or weight.grad is None:
            raise RefusedError(f"its weight {name} gets no gradient, or is empty")
    twice = Counter(weight for _, weight in module.named_parameters(remove_duplicate=False))
    if max(twice.values(), default=1) > 1:
        raise RefusedError("a weight of it has two names: give the module that has it one")
    for name, values in ((n, v) for m in module.modules() for n, v in vars(m).items()):
        listed = values if isinstance(values, list | tuple) else ()
        if name != "written" and any(isinstance(value, nn.Module | Tensor) for value in listed):
            raise RefusedError(f"what {name} has is not learned: make it an nn.ModuleList")


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
        module = construct(init.part, sizes, key(seed, "init", weight.removesuffix(init.name)))
    return module.get_parameter(init.name).detach()


class OwnModule(nn.Module):
    """A module of the user's own where a built-in part is otherwise."""

    def __init__(self, table: Mapping[str, Weight], name: str, part: Own) -> None:
        super().__init__()
        self.own = construct_from(table, f"{name}.own", part)

    def forward(self, x: Tensor, *arguments: Any) -> Tensor:
        """States (..., h) to states (..., h)."""
        return call_own(self.own, x, *arguments)


def written_as(module: nn.Module) -> tuple[Own, dict[str, Any]] | None:
    """The part that a module of the user is, and what its constructor got; None of others."""
    return vars(module).get("written")


def call_own(module: nn.Module, x: Tensor, *arguments: Any, **named: Tensor) -> Tensor:
    """Call a user's module on states (b, s, h), with its weights in their type."""
    weights = {n: w.to(x.dtype) for n, w in module.named_parameters() if w.dtype != x.dtype}
    if not weights:
        return cast(Tensor, module(x, *arguments, **named))
    return cast(Tensor, functional_call(module, weights, (x, *arguments), named))


@lru_cache(8)
def _construct_unit(part: Own, device: torch.device, vocab: int, token: TextOf) -> Any:
    sizes: Any = {"vocab": vocab, "pieces": [*map(token, range(vocab))]}
    with device:
        return load_class(part.source, part.code)(**part.chosen(sizes), **dict(part.arguments))


def number_units(part: Own, known: Mapping[str, Tensor], vocab: int, token: TextOf) -> Any:
    """The numbers (b, s) that the user's unit of masking gives to tokens, on their device."""
    with (device := known["tokens"].device), torch.no_grad():
        unit = _construct_unit(part, device, vocab, token)
        return unit.forward(**{name: known[name].clone() for name in part.reads})


def try_unit(part: Own, sizes: Mapping[str, int]) -> dict[str, bool]:
    """Number made-up tokens; raises RefusedError for what docs/own.md rules out."""
    ids_bs = torch.arange(48).view(3, 16) * 7 % (vocab := sizes["vocab"])
    known = {"tokens": ids_bs, "words": ids_bs % 3 > 0, "real": torch.ones(3, 16).tril(9) > 0}
    spellings = str, str, repr  # the last is the same, for a unit that is built anew
    numbers, *again = (number_units(part, known, vocab, spelling) for spelling in spellings)
    dtype, shape = getattr(numbers, "dtype", None), tuple(getattr(numbers, "shape", ()))
    if dtype not in (torch.int64, torch.int32) or shape != (3, 16):
        raise RefusedError(f"it makes {dtype} {shape}, not integers (3, 16)")
    if not all(torch.equal(x, numbers) for x in again):
        raise RefusedError("called twice, it differs: it keeps a state, or draws at random")
    rows = ({name: x[row : row + 1] for name, x in known.items()} for row in range(3))
    if not torch.equal(torch.cat([number_units(part, row, vocab, str) for row in rows]), numbers):
        raise RefusedError("it reads other rows of the batch")
    return {}


_RESERVED = ("gradient", "weight", "step")
"""Arguments of an update that are no moments."""
_SHAPES, _STEPS, _PLACES = ((8, 6), (12,), (4, 3, 2)), 4, 1000
_DIFFERS = "called twice alike, it differs: it keeps a state, or is random"


def try_schedule(part: OwnClass) -> dict[str, Any]:
    """Nothing is looked up; refuses what docs/own.md rules out."""
    schedule = OwnSchedule(**part.model_dump(include={"code", "arguments", "source"}))
    rate, places = make(part).rate, [n / _PLACES for n in range(_PLACES + 1)]
    if [*signature(rate).parameters] != ["progress"]:
        raise RefusedError("rate gets the progress alone: def rate(self, progress)")
    factors = {place: schedule.factor(place) for place in places}
    if factors != {place: float(rate(place)) for place in places[::-1]}:
        raise RefusedError(_DIFFERS)
    return {}


def try_rule(part: OwnClass) -> tuple[str, ...]:
    """The names of its moments; refuses as above."""
    rule = make(part)
    if taken := {*signature(type(rule)).parameters} & {*OwnRule.model_fields}:
        raise RefusedError(f"its {min(taken)} is one of own(...): choose another name")
    state = tuple(n for n in signature(rule.update).parameters if n not in _RESERVED)
    for shape in _SHAPES:
        results, anew, again = (_run(tried, state, shape) for tried in (rule, make(part), rule))
        if not all(map(torch.equal, [*results, *results], [*anew, *again])):
            raise RefusedError(_DIFFERS)
    return state


@torch.no_grad()
def _run(rule: Any, state: Sequence[str], shape: tuple[int, ...]) -> list[Tensor]:
    """The changes of all steps, and the moments after them; gradients are 0 at first."""
    generator = torch.Generator().manual_seed(0)
    weight, *gradients = torch.randn(1 + _STEPS, *shape, generator=generator)
    gradients[0].zero_()
    moments, changes = {name: torch.zeros_like(weight) for name in state}, list[Tensor]()
    for step, gradient in enumerate(gradients, 1):
        values: Any = {"gradient": gradient.clone(), "weight": weight.clone(), "step": step}
        values |= moments
        change = rule.update(**{n: values[n] for n in signature(rule.update).parameters})
        if getattr(change, "dtype", None) != weight.dtype or change.shape != weight.shape:
            raise RefusedError("it makes no tensor of the shape and type of the weight")
        if not all(tensor.isfinite().all() for tensor in (change, *moments.values())):
            raise RefusedError("what it makes is not finite, as of gradients that are 0")
        if not all(map(torch.equal, (values["gradient"], values["weight"]), (gradient, weight))):
            raise RefusedError("it changes the gradient or the weight: only return the change")
        changes.append(change.clone())
    if still := [name for name, moment in moments.items() if not moment.any()]:
        raise RefusedError(f"its moment {still[0]} stays 0: change it in place")
    return [*changes, *moments.values()]
