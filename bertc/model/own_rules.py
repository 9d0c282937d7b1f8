"""Update rules and schedules of the user's own, tried out: what they have, or what is wrong."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from bertc.base.own_code import RefusedError, factor, make
from bertc.ir.own import OwnClass

_RESERVED = ("gradient", "weight", "step")
"""Arguments of an update that are no moments."""
_SHAPES, _STEPS, _PLACES = ((8, 6), (12,), (4, 3, 2)), 4, 1000
_DIFFERS = "called twice alike, it differs: it keeps a state, or is random"


def try_schedule(part: OwnClass) -> dict[str, Any]:
    """Nothing is looked up; refuses what docs/own.md rules out."""
    one, other, places = make(part), make(part), [n / _PLACES for n in range(_PLACES + 1)]
    factors = {place: factor(one, place) for place in places}
    if factors != {place: factor(other, place) for place in places[::-1]}:
        raise RefusedError(_DIFFERS)
    return {}


def try_rule(part: OwnClass) -> dict[str, Any]:
    """The names of moments, and whether an element is updated alone; refuses as above."""
    one, other, alone = make(part), make(part), True
    state = tuple(n for n in inspect.signature(one.update).parameters if n not in _RESERVED)
    for shape in _SHAPES:
        drawn = _draw(shape)
        results = _run(one, state, drawn)
        if any(not _alike(results, _run(rule, state, drawn)) for rule in (other, one)):
            raise RefusedError(_DIFFERS)
        halves = zip(*(tensor.flatten().chunk(2) for tensor in drawn), strict=True)
        joined = map(torch.cat, zip(*(_run(one, state, half) for half in halves), strict=True))
        alone &= _alike([tensor.flatten() for tensor in results], [*joined], rtol=1e-5)
    return {"state": state, "alone": alone}


def _draw(shape: tuple[int, ...]) -> list[Tensor]:
    """A weight and its gradient at each step, of many sizes, and some 0; all are at first."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(1 + _STEPS, *shape, generator=generator)
    drawn *= torch.logspace(-3, 1, drawn[0].numel()).view(shape)
    drawn[1] = drawn[:, 0] = 0
    return [*drawn]


@torch.no_grad()
def _run(rule: Any, state: Sequence[str], drawn: Sequence[Tensor]) -> list[Tensor]:
    """The changes of all steps, and the moments after them."""
    weight, *gradients = drawn
    moments, changes = {name: torch.zeros_like(weight) for name in state}, list[Tensor]()
    for step, gradient in enumerate(gradients, 1):
        values: Any = {"gradient": gradient.clone(), "weight": weight.clone(), "step": step}
        values |= moments
        change = rule.update(**{n: values[n] for n in inspect.signature(rule.update).parameters})
        if getattr(change, "dtype", None) != weight.dtype or change.shape != weight.shape:
            raise RefusedError("it makes no tensor of the shape and type of the weight")
        if not all(tensor.isfinite().all() for tensor in (change, *moments.values())):
            raise RefusedError("what it makes is not finite, as of gradients that are 0")
        if not _alike([values["gradient"], values["weight"]], [gradient, weight]):
            raise RefusedError("it changes the gradient or the weight: only return the change")
        changes.append(change.clone())
    if still := [name for name, moment in moments.items() if not moment.any()]:
        raise RefusedError(f"its moment {still[0]} stays 0: change it in place")
    return [*changes, *moments.values()]


def _alike(tensors: list[Tensor], others: list[Tensor], rtol: float = 0.0) -> bool:
    pairs = zip(tensors, others, strict=True)
    return all(torch.allclose(tensor, other, rtol, 0.0) for tensor, other in pairs)
