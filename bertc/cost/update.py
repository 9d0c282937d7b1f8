"""The optimiser's update: bytes of its state, temporary bytes, matrix products, memory traffic."""

from collections import Counter
from collections.abc import Iterator
from math import prod
from typing import Literal

from bertc.cost.execution import FP32, networks_of
from bertc.cost.parameters import stored
from bertc.ir import operation as op
from bertc.ir.learning.optimizer import MUON_AT_ONCE, Adam, Lamb, Muon, StableAdam
from bertc.ir.once import once
from bertc.ir.program.stage import Stage

MOVED_BYTES = {"adam": 7 * FP32, "lamb": 18 * FP32}
"""Bytes moved per weight: Adam reads four numbers and writes three; LAMB also computes norms, as
StableAdamW does."""


def state_bytes(stage: Stage, total: int) -> int:
    """Bytes of moments of ``total`` weights, two of each or of matrices one, and of methods."""
    return FP32 * (2 * total - _spared(stage)) + methods_bytes(stage, total)


@once
def _spared(stage: Stage) -> int:
    """Numbers of moments that a rule does without, of two for each weight."""
    weights = (stored_weight for network in stage.learned for stored_weight in stored(network))
    rule = stage.optimizer
    counts = ((0 if w.frozen else len(rule.moments(w)), w.numel * times) for w, times in weights)
    return sum((2 - moments) * numel for moments, numel in counts)


def methods_bytes(stage: Stage, total: int) -> int:
    """Bytes of what methods have on the devices for ``total`` weights."""
    return FP32 * total * sum(one.holds.on_devices for one in stage.methods if one.holds)


def temporary_bytes(stage: Stage, total: int, one_by_one: bool, muon_bytes: int) -> int:
    """Bytes of an update of ``total`` weights, eager or compiled; ``muon_bytes`` of a number."""
    match stage.optimizer:
        case Adam():
            return 0
        case Lamb() | StableAdam():
            return total * FP32 * (1 if one_by_one else 2)
        case Muon() as rule:
            sizes = Counter[tuple[int, ...]]()
            for network in stage.learned:
                for weight, times in stored(network):
                    if rule.takes(weight):
                        sizes[weight.shape] += times
            sizes_at_once = (
                min(count, max(1, MUON_AT_ONCE // prod(shape)))
                * (3 * prod(shape) + 2 * min(shape) ** 2)
                for shape, count in sizes.items()
            )
            return muon_bytes * max(sizes_at_once, default=0)


def moves_as(stage: Stage) -> Literal["adam", "lamb"]:
    """The rule that moves as many bytes per weight as the stage's does."""
    match stage.optimizer:
        case Adam() | Muon():
            return "adam"
        case Lamb() | StableAdam():
            return "lamb"


def update_products(stage: Stage) -> Iterator[tuple[op.Product, int]]:
    """The matrix products of an update, each with the number of weights that have it."""
    for network in networks_of(stage):
        if network.terms:
            for weight, times in stored(network):
                yield from ((product, times) for product in stage.optimizer.operations(weight))
