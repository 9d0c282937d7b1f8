"""The Hugging Face families that bertc reads and writes: a file each, and a place in the tuple."""

from collections.abc import Iterator
from typing import Any

from bertc.interop.families.albert import ALBERT
from bertc.interop.families.bert import BERT
from bertc.interop.families.electra import ELECTRA
from bertc.interop.families.family import Candidate, Family
from bertc.interop.families.obstacle import Obstacle, first_of
from bertc.interop.families.roberta import ROBERTA
from bertc.interop.families.xlm import XLM
from bertc.interop.families.xlnet import XLNET
from bertc.ir.base import Node
from bertc.ir.program.resolved import Resolved

FAMILIES: tuple[Family[Any], ...] = (XLNET, ELECTRA, XLM, ALBERT, ROBERTA, BERT)
"""In the order in which they are asked for a program; the last claims what no other does."""


def family_named(model_type: str) -> Family[Any]:
    """The family of one of ``model_types``."""
    return next(each for each in FAMILIES if each.model_type == model_type)


def model_types() -> tuple[str, ...]:
    """The families by name, the best known first."""
    return tuple(each.model_type for each in reversed(FAMILIES))


def family_for(resolved: Resolved, pad: int, prefer: str | None = None) -> Family[Any] | Obstacle:
    """The family that can say a program whose vocabulary pads with id ``pad``, or an obstacle.

    ``prefer`` names the one that its network came from.
    """
    candidate = Candidate(resolved, pad)
    systems = {prefer or "", resolved.run.layout if candidate.tuned else ""}
    candidate = Candidate(resolved, pad, frozenset(systems))
    family = next(each for each in FAMILIES if each.claims(candidate))
    return family.obstacle(candidate) or first_of(_unsaid(family, candidate)) or family


def _unsaid(family: Family[Any], candidate: Candidate) -> Iterator[Obstacle]:
    """Kinds of parts, and arguments of them, that a family does not list."""
    for part, node in _parts(candidate):
        kind = getattr(node, "kind", "")
        if type(node) not in family.says:
            setting = f"{part}={kind}" if kind else part
            yield Obstacle(setting, f"the {family.title} layout has no such kind")
            continue
        for name, about in type(node).model_fields.items():
            value = getattr(node, name)
            if name not in family.says[type(node)] and value != about.default:
                why = f"the {family.title} layout has no setting for it"
                yield Obstacle(f"{part}.{name}={value}", why)


def _parts(candidate: Candidate) -> Iterator[tuple[str, Node]]:
    """The parts that make a network what it computes, the head if it is to be written."""
    for name, value in candidate.encoder:
        if name == "initializer" or (name == "head" and not candidate.predicts):
            continue
        for node in value if isinstance(value, tuple) else (value,):
            if isinstance(node, Node):
                yield name, node
