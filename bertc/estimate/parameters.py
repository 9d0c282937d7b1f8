"""Counting weights: sums over the weight table, shared tensors once and as applied."""

from collections import Counter
from collections.abc import Callable, Iterable

from bertc.estimate.figures import Parameters
from bertc.ir.base import Weight
from bertc.ir.encoder import Encoder
from bertc.ir.objective import Term

Tally = Counter[str]
"""Weights by part."""


def count(encoder: Encoder, terms: Iterable[Term]) -> Parameters:
    """The weights of an encoder and of the heads of ``terms``.

    Layers of equal widths are counted once and multiplied, so that the cost does not grow with
    depth.
    """
    embeddings = _tally(encoder.embedding_weights())
    pooler = _tally(encoder.pooler_weights())
    # mlm and tlm have one head.
    heads = _tally({w.name: w for term in terms for w in term.objective.weights(encoder)}.values())
    final = _tally((*encoder.common_weights(), *encoder.final_weights()))
    layers = final + _layers(encoder, set(encoder.attention_owner), set(encoder.ffn_owner))
    applied = final + _layers(encoder, encoder.attention_owner, encoder.ffn_owner)
    whole = embeddings + layers + pooler
    outside = embeddings.total() + pooler.total() + heads.total()
    return Parameters(
        encoder=whole.total(),
        embeddings=embeddings.total(),
        layers=layers.total(),
        pooler=pooler.total(),
        heads=heads.total(),
        total=(whole + heads).total(),
        applied=applied.total() + outside,
        by_part=dict(whole + heads),
    )


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
