"""How often each text of a stage is drawn, and in which order the texts of a pair are read."""

from collections import defaultdict
from collections.abc import Sequence

from bertc.data.sources.source import Text
from bertc.ir.data import Parallel
from bertc.ir.program.resolved import Stage


def texts_of(stage: Stage) -> list[tuple[float, Text]]:
    """What a stage reads, each with the weight written for it.

    Parallel text is read in pairs where an objective asks for them. Its sides are read alone, as
    texts of one language, where none does, or where there is nothing else to read alone.
    """
    if stage.tasks:
        return []
    translating = [term.objective.kind for term in stage.objective].count("tlm")
    others = len(stage.objective) > translating
    parallel = [isinstance(share.corpus, Parallel) for share in stage.data]
    found: list[tuple[float, Text]] = []
    for share, paired in zip(stage.data, parallel, strict=True):
        if not paired or translating:
            found.append((share.weight, Text(share.corpus)))
        if paired and (not translating or (others and all(parallel))):
            found += [(share.weight, Text(share.corpus, side)) for side in (0, 1)]
    return found


def orders_of(stage: Stage) -> list[tuple[float, Text, bool]]:
    """What a stage reads, each with its weight, and whether the second text of a row comes first.

    With ``both_orders`` each pair is read in either order, with half of its weight.
    """
    found = []
    for weight, text in texts_of(stage):
        orders = (False, True) if text.paired and stage.mixing.both_orders else (False,)
        found += [(weight / len(orders), text, turned) for turned in orders]
    return found


def proportioned(
    weights: Sequence[float], rows: Sequence[int], paired: Sequence[bool], part: float
) -> tuple[float, ...]:
    """Weights under which this part of the rows drawn are translations; 0 leaves them as they are.

    So does text that is all parallel, or none of it.
    """
    drawn = {False: 0.0, True: 0.0}
    for weight, count, both in zip(weights, rows, paired, strict=True):
        drawn[both] += weight * count
    if not part or not all(drawn.values()):
        return tuple(weights)
    factor = part / (1 - part) * drawn[False] / drawn[True]
    return tuple(
        weight * (factor if both else 1) for weight, both in zip(weights, paired, strict=True)
    )


def draw_weights(
    texts: Sequence[tuple[float, Text]], tokens: Sequence[int], exponent: float
) -> tuple[float, ...]:
    """Weights w such that drawing in proportion to w x size draws language l with p_l^exponent.

    p_l is the share of l in the tokens, each as often as its written weight says. Pairs are
    smoothed by themselves, as XLM does (utils.py, set_sampling_probs): how much is drawn of them
    in all stays as written.
    """
    own = [weight * max(1, count) for (weight, _), count in zip(texts, tokens, strict=True)]
    weights = [weight for weight, _ in texts]
    for paired in (False, True):
        places = [at for at, (_, text) in enumerate(texts) if text.paired == paired]
        by_language: dict[tuple[str, str], float] = defaultdict(float)
        for at in places:
            by_language[texts[at][1].languages] += own[at]
        whole = sum(own[at] for at in places)
        factors = {k: (size / whole) ** (exponent - 1) for k, size in by_language.items()}
        after = sum(factors[k] * size for k, size in by_language.items())
        for at in places:
            weights[at] *= factors[texts[at][1].languages] * whole / after
    return tuple(weights)
