"""A program of two networks as two of one, for layouts that hold one network a folder."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from bertc.ir.network.generator import NoGenerator
from bertc.ir.program.model import is_tied, model_weights
from bertc.ir.program.resolved import NetworkName, Resolved

if TYPE_CHECKING:
    from torch import Tensor

GENERATOR = "generator"
"""The folder beside a model's files that holds its generator."""


def alone(resolved: Resolved, name: NetworkName) -> Resolved:
    """The program of one network, called ``encoder`` in it, with the terms that it learns."""
    return resolved.model_copy(
        update={
            "stages": tuple(
                stage.model_copy(
                    update={
                        "encoder": stage.network(name),
                        "generator": None,
                        "replacements": NoGenerator(),
                        "objective": tuple(
                            term
                            for term in stage.objective
                            if stage.network_of(term.objective) == name
                        ),
                    }
                )
                for stage in resolved.stages
            )
        }
    )


def tensors_alone(
    resolved: Resolved, tensors: Mapping[str, "Tensor"], name: NetworkName
) -> dict[str, "Tensor"]:
    """The tensors of one network by the names of its own program, tied ones included."""
    ties = resolved.stages[-1].replacements
    found = {}
    for weight in model_weights(alone(resolved, name)):
        own = weight.name.removeprefix("encoder.")
        theirs = weight.name
        if name == "generator" and own != weight.name and not is_tied(ties, own):
            theirs = f"generator.{own}"
        if theirs in tensors:
            found[weight.name] = tensors[theirs]
    return found


def joined(
    resolved: Resolved, encoder: Mapping[str, "Tensor"], generator: Mapping[str, "Tensor"]
) -> dict[str, "Tensor"]:
    """The tensors of a program of two networks from those of each alone."""
    heads = {name: tensor for name, tensor in generator.items() if name.startswith("heads.")}
    bodies = {n.replace("encoder.", "generator.", 1): t for n, t in generator.items()}
    found = {**bodies, **heads, **encoder}
    return {w.name: found[w.name] for w in model_weights(resolved) if w.name in found}
