"""Counting weights: sums over the weight table, shared tensors once and as applied."""

from collections import Counter
from collections.abc import Callable, Iterable

from bertc.estimate.figures import Parameters
from bertc.ir.base import Weight
from bertc.ir.learning.objective import Term
from bertc.ir.network.encoder import Encoder
from bertc.ir.program.model import is_tied
from bertc.ir.program.resolved import NetworkName, Stage

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
            for weight in term.objective.weights(stage.network(stage.network_of(term.objective)))
        }.values()
    )
    names = {network.name for network in stage.networks() if network.terms}
    encoder, applied = _bodies(stage, "encoder", "encoder" in names or not trained)
    generator, again = _bodies(stage, "generator", "generator" in names or not trained)
    if trained and "encoder" not in names:  # what is tied is trained with the generator
        generator += _tally(_tied(stage))
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
        applied=(applied + again + heads).total(),
        by_part=dict(whole),
    )


def _bodies(stage: Stage, name: NetworkName, counted: bool) -> tuple[Tally, Tally]:
    """A network without heads and without what is tied, shared weights once and as applied."""
    if not counted or (name == "generator" and stage.generator is None):
        return Tally(), Tally()
    encoder = stage.network(name)
    tied = _tied(stage) if name == "generator" else ()
    outside = _tally(encoder.embedding_weights()) - _tally(tied) + _tally(encoder.pooler_weights())
    outside += _tally((*encoder.common_weights(), *encoder.final_weights()))
    return (
        outside + _layers(encoder, set(encoder.attention_owner), set(encoder.ffn_owner)),
        outside + _layers(encoder, encoder.attention_owner, encoder.ffn_owner),
    )


def _tied(stage: Stage) -> tuple[Weight, ...]:
    """What the generator has of the encoder."""
    weights = stage.generator.embedding_weights() if stage.generator else ()
    return tuple(w for w in weights if is_tied(stage.replacements, w.name))


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
