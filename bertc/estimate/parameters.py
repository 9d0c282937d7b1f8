"""Counting weights: sums over the weight table, shared tensors once and as applied."""

from collections import Counter
from collections.abc import Callable, Iterable

from bertc.estimate.figures import Parameters
from bertc.ir.base import Weight
from bertc.ir.learning.objective import Term
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.network import Network
from bertc.ir.program.resolved import Stage

Tally = Counter[str]
"""Weights by part."""


def count(stage: Stage, terms: Iterable[Term], trained: bool = False) -> Parameters:
    """The weights of a stage's networks and of the heads of ``terms``.

    With ``trained`` of those networks alone that the stage trains. Layers of equal widths are
    counted once and multiplied, so that the cost does not grow with depth.
    """
    # Terms may share a head.
    heads = _tally(
        {
            weight.name: weight
            for term in terms
            for weight in term.objective.weights(stage.learner(term.objective).body)
        }.values()
    )
    learning = {network.name for network in stage.networks() if network.terms}
    counted = [each for each in stage.allocated if each.name in learning or not trained]
    names = {each.name for each in counted}
    encoder, generator, applied = Tally(), Tally(), Tally()
    for network in counted:
        own, again = _body(network)
        # What is tied to a network that is not counted is counted here.
        own += _tally(w for w in _tied(network) if network.owner(w.name) not in names)
        applied += again
        if network.role == "trained":
            encoder += own
        else:
            generator += own
    whole = encoder + generator + heads
    parts = {part: encoder[part] for part in ("embeddings", "pooler")}
    return Parameters(
        encoder=encoder.total(),
        generator=generator.total(),
        embeddings=parts["embeddings"],
        layers=encoder.total() - sum(parts.values()),
        pooler=parts["pooler"],
        heads=heads.total(),
        total=whole.total(),
        applied=(applied + heads).total(),
        by_part=dict(whole),
    )


def _body(network: Network) -> tuple[Tally, Tally]:
    """A network without heads and without what is tied, shared weights once and as applied."""
    encoder = network.body
    outside = _tally(encoder.embedding_weights()) - _tally(_tied(network))
    outside += _tally(encoder.pooler_weights())
    outside += _tally((*encoder.common_weights(), *encoder.final_weights()))
    return (
        outside + _layers(encoder, set(encoder.attention_owner), set(encoder.ffn_owner)),
        outside + _layers(encoder, encoder.attention_owner, encoder.ffn_owner),
    )


def _tied(network: Network) -> tuple[Weight, ...]:
    """What a network has of another one."""
    weights = network.body.embedding_weights()
    return tuple(w for w in weights if network.owner(w.name) != network.name)


def _layers(encoder: Encoder, attention: Iterable[int], ffn: Iterable[int]) -> Tally:
    return _repeated(encoder, attention, encoder.attention_weights) + _repeated(
        encoder, ffn, encoder.ffn_weights
    )


def _repeated(
    encoder: Encoder, layers: Iterable[int], weights: Callable[[int], tuple[Weight, ...]]
) -> Tally:
    """The sum over ``layers``, asking the weight table once for each set of widths."""
    alike: dict[tuple[int, int, int], list[int]] = {}
    for layer in layers:
        widths = encoder.layers[layer]
        alike.setdefault((widths.heads, widths.head_dim, widths.ffn), []).append(layer)
    total = Tally()
    for same in alike.values():
        for part, numel in _tally(weights(same[0])).items():
            total[part] += numel * len(same)
    return total


def _tally(weights: Iterable[Weight]) -> Tally:
    by_part = Tally()
    for weight in weights:
        by_part[weight.part] += weight.numel
    return by_part
