"""Update rules and schedules of the user's own, tried out: what they have, or what is wrong."""

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from bertc.base.own_code import RefusedError, make
from bertc.ir.learning.optimizer import OwnRule
from bertc.ir.learning.schedule import OwnSchedule
from bertc.ir.own import OwnClass

_RESERVED = ("gradient", "weight", "step")
"""Arguments of an update that are no moments."""
_SHAPES, _STEPS, _PLACES = ((8, 6), (12,), (4, 3, 2)), 4, 1000
_DIFFERS = "called twice alike, it differs: it keeps a state, or is random"


def try_schedule(part: OwnClass) -> dict[str, Any]:
    """Nothing is looked up; refuses what docs/own.md rules out."""
    schedule = OwnSchedule(**part.model_dump(include={"code", "arguments", "source"}))
    rate, places = make(part).rate, [n / _PLACES for n in range(_PLACES + 1)]
    if [*inspect.signature(rate).parameters] != ["progress"]:
        raise RefusedError("rate gets the progress alone: def rate(self, progress)")
    factors = {place: schedule.factor(place) for place in places}
    if factors != {place: float(rate(place)) for place in places[::-1]}:
        raise RefusedError(_DIFFERS)
    return {}


def try_rule(part: OwnClass) -> tuple[str, ...]:
    """The names of its moments; refuses as above."""
    rule = make(part)
    if taken := {*inspect.signature(type(rule)).parameters} & {*OwnRule.model_fields}:
        raise RefusedError(f"its {min(taken)} is one of own(...): choose another name")
    state = tuple(n for n in inspect.signature(rule.update).parameters if n not in _RESERVED)
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
        change = rule.update(**{n: values[n] for n in inspect.signature(rule.update).parameters})
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
