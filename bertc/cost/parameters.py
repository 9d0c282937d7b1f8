"""Weights of a stage: their numbers, their state, and what an update of them costs."""

from collections import Counter
from collections.abc import Iterable, Iterator
from math import prod

from bertc.cost.figures import FP32, Execution, Parameters
from bertc.ir import operation as op
from bertc.ir.base import ZEROS, Weight, once
from bertc.ir.learning import Term, optimizer as rules
from bertc.ir.network.body import counted_weights
from bertc.ir.program import Network, Stage, frozen_weights
from bertc.ir.terms.node import weights_of_heads

Tally = Counter[str]
"""Number of weights by part."""


def count(stage: Stage, terms: Iterable[Term] = ()) -> Parameters:
    """Count a stage's networks and the heads of ``terms``; without any what it trains alone."""
    terms = [*terms]
    scored = [term.objective for term in terms or stage.objective]
    heads = _tally(weights_of_heads((term, stage.learner(term).body) for term in scored))
    learning = {network.name for network in stage.networks() if network.terms}
    counted = [network for network in stage.learned if network.name in learning or terms]
    names = {network.name for network in counted}
    encoder, generator, applied = Tally(), Tally(), Tally()
    for network in counted:
        stored_once, again = _body(network)
        # Count a tied tensor here if the network that owns it is not counted.
        tied = _tally(w for w in _tied(network) if network.owner(w.name) not in names)
        applied += again
        (encoder if network.role == "trained" else generator).update(stored_once + tied)
    counts = encoder + generator + heads
    frozen = (network for network in stage.networks() if not network.learned)
    stored = (pair for network in counted for pair in stored_weights(network))
    return Parameters(
        encoder=encoder.total(), generator=generator.total(), embeddings=encoder["embeddings"],
        layers=encoder.total() - encoder["embeddings"] - encoder["pooler"],
        pooler=encoder["pooler"], heads=heads.total(), total=counts.total(),
        # Of frozen networks at work, with the heads that they are asked for.
        frozen=sum(weight.numel for network in frozen for weight in frozen_weights(network)),
        applied=(applied + heads).total(), by_part=dict(counts),
        untrained=sum(weight.numel * times for weight, times in stored if weight.frozen),
    )  # fmt: skip


@once
def count_heads(network: Network) -> int:
    """Number of weights of a network's heads, of which terms may share one."""
    heads = weights_of_heads((term.objective, network.body) for term in network.terms)
    return sum(weight.numel for weight in heads)


def stored_weights(network: Network) -> Iterator[tuple[Weight, int]]:
    """Weights of a network without heads, and how often they are stored, -1 for tied ones."""
    for weights, times, _ in counted_weights(network.body):
        yield from ((weight, times) for weight in weights)
    yield from ((weight, -1) for weight in _tied(network))


@once
def _body(network: Network) -> tuple[Tally, Tally]:
    """Weights of a network without heads and tied tensors: shared ones once, and once per use."""
    single, applied, tied = Tally(), Tally(), _tally(_tied(network))
    for weights, stored, times in counted_weights(network.body):
        for part, numel in _tally(weights).items():
            single[part] += stored * numel
            applied[part] += times * numel
    return single - tied, applied - tied


def _tied(network: Network) -> tuple[Weight, ...]:
    weights = network.body.weights() if network.ties else ()
    return tuple(w for w in weights if network.owner(w.name) != network.name)


def _tally(weights: Iterable[Weight]) -> Tally:
    by_part = Tally()
    for weight in weights:
        by_part[weight.part] += weight.numel
    return by_part


_HEAD = Weight("", (), (), ZEROS, "head", "bias")
"""A weight of a head, which has as many moments as any."""


def state_bytes(stage: Stage, total: int) -> int:
    """Bytes of moments of ``total`` weights, as its rule has them, and of methods."""
    numbers = len(stage.optimizer.moments(_HEAD)) * total - _count_spared(stage)
    return FP32 * numbers + methods_bytes(stage, total)


@once
def _count_spared(stage: Stage) -> int:
    """Numbers of moments that a rule does without, of as many as a head has for each weight."""
    weights = (pair for network in stage.learned for pair in stored_weights(network))
    rule, most = stage.optimizer, len(stage.optimizer.moments(_HEAD))
    counts = ((0 if w.frozen else len(rule.moments(w)), w.numel * times) for w, times in weights)
    return sum((most - moments) * numel for moments, numel in counts)


def methods_bytes(stage: Stage, total: int) -> int:
    """Bytes of what methods have on the devices for ``total`` weights."""
    return FP32 * total * sum(method.holds.on_devices for method in stage.methods if method.holds)


def temporary_bytes(stage: Stage, total: int, how: Execution) -> int:
    """Bytes of an update of ``total`` weights; it is compiled on a CPU only."""
    on_cpu = how.device == "cpu"
    match stage.optimizer:
        case rules.Adam():
            return 0
        case rules.Lamb() | rules.StableAdam():
            return total * FP32 * (1 if how.compiled and on_cpu else 2)
        case rules.Muon() as rule:
            sizes = Counter[tuple[int, ...]]()
            for network in stage.learned:
                for weight, times in stored_weights(network):
                    if rule.takes(weight):
                        sizes[weight.shape] += times
            sizes_at_once = (
                min(count, max(1, rules.MUON_AT_ONCE // prod(shape)))
                * (3 * prod(shape) + 2 * min(shape) ** 2)
                for shape, count in sizes.items()
            )
            # Products are in bf16, on a CPU in the step's precision.
            return (how.value_bytes if on_cpu else 2) * max(sizes_at_once, default=0)
        case rules.OwnRule(state=state):
            stored = (pair for network in stage.learned for pair in stored_weights(network))
            # What an expression has at once, and copies of shards that it gets as a whole.
            return max(w.numel for w, _ in stored if not w.frozen) * FP32 * (len(state) + 6)


def update_products(stage: Stage) -> Iterator[tuple[op.Product, int]]:
    """The matrix products of an update, each with the number of weights that have it."""
    for network in stage.networks():
        if network.terms:
            for weight, times in stored_weights(network):
                yield from ((product, times) for product in stage.optimizer.operations(weight))
