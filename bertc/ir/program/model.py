"""The weight table of a whole model: its networks, what they tie, and all heads."""

from collections.abc import Iterator
from dataclasses import replace

from bertc.ir.base import ONES, Constant, Normal, Weight
from bertc.ir.network.generator import Generator, GeneratorNetwork
from bertc.ir.program.resolved import NetworkName, Resolved, Stage


def head_weights(resolved: Resolved) -> tuple[Weight, ...]:
    """Weights of the heads of all objectives, each once however many stages use it."""
    found = {
        weight.name: weight  # terms may share a head
        for term in resolved.terms()
        for weight in term.objective.weights(
            resolved.network(resolved.stages[-1].network_of(term.objective))
        )
    }
    return tuple(found.values())


def is_tied(replacements: Generator, name: str) -> bool:
    """Whether a generator's weight of that name is the encoder's own."""
    match replacements:
        case GeneratorNetwork(tie="embeddings"):
            return name.startswith("embeddings.") and not name.startswith("embeddings.project.")
        case GeneratorNetwork(tie="tokens"):
            return name.startswith("embeddings.token.")
        case _:
            return False


def own_weights(stage: Stage, name: NetworkName) -> tuple[Weight, ...]:
    """The weights of one network as it calls them, without those that are tied to another's."""
    return tuple(
        weight
        for weight in stage.network(name).weights()
        if name == "encoder" or not is_tied(stage.replacements, weight.name)
    )


def model_weights(resolved: Resolved) -> tuple[Weight, ...]:
    """The weight table of the whole model: ``encoder.``, ``generator.`` if any, and ``heads.``.

    Depth is in the names: ``embeddings``, ``attention.3``, ``ffn.3``, heads last.
    """
    last = resolved.stages[-1]
    table = list(_named("encoder", own_weights(last, "encoder")))
    if last.generator is not None:
        table += _named("generator", own_weights(last, "generator"))
    table += _named("heads", head_weights(resolved))
    init = resolved.encoder.initializer
    if isinstance(init, Normal) and init.norms:
        scales = Constant(value=1.0, std=init.norms)
        return tuple(replace(w, init=scales) if w.init == ONES else w for w in table)
    return tuple(table)


def _named(prefix: str, weights: tuple[Weight, ...]) -> Iterator[Weight]:
    return (replace(weight, name=f"{prefix}.{weight.name}") for weight in weights)
