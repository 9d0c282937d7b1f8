"""The weight table of a whole model, and subsets of it."""

from collections.abc import Iterator
from dataclasses import replace

from bertc.ir.base import ONES, Constant, Normal, Weight
from bertc.ir.network.encoder import DECODER
from bertc.ir.once import once
from bertc.ir.program.network import MAIN, Network
from bertc.ir.program.passing import is_frozen
from bertc.ir.program.resolved import Resolved
from bertc.ir.program.stage import Stage
from bertc.ir.terms.node import asks_head, weights_of_head, weights_of_heads


def head_weights(resolved: Resolved) -> tuple[Weight, ...]:
    """Weights of the heads of all objectives, each once, even if several stages use it."""
    terms, last = (term.objective for term in resolved.terms()), resolved.stages[-1]
    return weights_of_heads((term, last.learner(term).body) for term in terms)


@once
def model_weights(resolved: Resolved) -> tuple[Weight, ...]:
    """Weight table of the model: networks by name, tied weights once, then ``heads.``."""
    table = [
        w for network in resolved.learned for w in _prefix(network.name, network.own_weights())
    ]
    table += _prefix("heads", head_weights(resolved))
    init = resolved.encoder.initializer
    if isinstance(init, Normal) and init.norms:
        scales = Constant(value=1.0, std=init.norms)
        return tuple(replace(w, init=scales) if w.init == ONES else w for w in table)
    return tuple(table)


def frozen_weights(network: Network) -> tuple[Weight, ...]:
    """The weights of a frozen network at work, by their names in a program of its own."""
    heads = weights_of_heads(
        (objective, network.body) for objective in network.scored if asks_head(objective)
    )
    return (*_prefix(MAIN, network.body.weights()), *_prefix("heads", heads))


def trained_names(stage: Stage) -> set[str]:
    """Names of the weights with a gradient in a stage."""
    names = set()
    for network in stage.networks():
        body, unread = network.body, _skips(network)
        for weight in body.weights() if network.terms else ():
            if weight.frozen or weight.name in unread:
                continue
            if not is_frozen(stage, network, weight.name):
                names.add(f"{network.owner(weight.name)}.{weight.name}")
        for term in network.terms:
            names |= {f"heads.{weight.name}" for weight in weights_of_head(term.objective, body)}
    return names


def _skips(network: Network) -> set[str]:
    """Names of weights that nothing wanted depends on: of a body some may not have."""
    body, outputs = network.body, network.wanted
    unread = {weight.name for weight in body.unread_layer_weights(outputs)}
    if not network.pooled:
        unread |= {weight.name for weight in body.weights() if weight.part == "pooler"}
    unread |= set() if network.query_states else {"embeddings.unseen"}
    return unread if outputs.decoded else unread | {f"{DECODER}.weight"}


def _prefix(prefix: str, weights: tuple[Weight, ...]) -> Iterator[Weight]:
    return (replace(weight, name=f"{prefix}.{weight.name}") for weight in weights)
