"""Splitting a program of several networks into one per network, for one-network layouts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bertc.ir.network.generator import NoGenerator
from bertc.ir.program import MAIN, Resolved, model_weights

if TYPE_CHECKING:
    from torch import Tensor

GENERATOR = "generator"
"""Subfolder of an exported model that holds its generator."""


def names_beside(resolved: Resolved) -> tuple[str, ...]:
    """Names of the networks besides the main one, each exported to a subfolder of its name."""
    return tuple(network.name for network in resolved.learned if network.name != MAIN)


def alone(resolved: Resolved, name: str = MAIN) -> Resolved:
    """The program of one network, as its main network, with the terms it learns."""
    stages = []
    for stage in resolved.stages:
        learned = (t for t in stage.objective if stage.learner(t.objective).name == name)
        changes = {"generator": None, "replacements": NoGenerator(), "objective": tuple(learned)}
        stages.append(stage.model_copy(update={**changes, "encoder": stage.network(name).body}))
    return resolved.model_copy(update={"stages": tuple(stages)})


def add_tables(
    resolved: Resolved, tensors: Mapping[str, "Tensor"], sign: int = 1
) -> dict[str, "Tensor"]:
    """The tensors with the main network's tables whole, where they are differences; -1: back."""
    main, added = resolved.stages[-1].network(MAIN), dict(tensors)
    for tie in main.ties:
        for name in (w.name for w in main.body.weights() if tie.added and tie.covers(w.name)):
            table = f"{MAIN}.{name}"
            added[table] = tensors[table] + sign * tensors[f"{tie.network}.{name}"]
    return added


def tensors_alone(
    resolved: Resolved, tensors: Mapping[str, "Tensor"], name: str = MAIN
) -> dict[str, "Tensor"]:
    """The tensors of one network by the names of its own program, tied ones included."""
    named, network = dict[str, "Tensor"](), resolved.stages[-1].network(name)
    tensors = add_tables(resolved, tensors)
    for weight in model_weights(alone(resolved, name)):
        bare = weight.name.removeprefix(f"{MAIN}.")
        stored = weight.name if bare == weight.name else f"{network.owner(bare)}.{bare}"
        if stored in tensors:
            named[weight.name] = tensors[stored]
    return named


def join_networks(
    resolved: Resolved, main: Mapping[str, "Tensor"], further: Mapping[str, "Tensor"]
) -> dict[str, "Tensor"]:
    """Merge the tensors of two one-network programs into those of one program."""
    (second,) = names_beside(resolved)
    renamed = {name.replace(f"{MAIN}.", f"{second}.", 1): t for name, t in further.items()}
    merged = {**renamed, **main}
    return {w.name: merged[w.name] for w in model_weights(resolved) if w.name in merged}
