"""The Hugging Face family and class for exporting a model; no torch."""

from collections.abc import Iterable
from typing import Any

from bertc.hub.families import family_for
from bertc.hub.families.family import Family, HfClass, transformer
from bertc.hub.families.obstacle import Obstacle
from bertc.hub.keys import keys, part_of, parts_of
from bertc.hub.task_classes import held_task, task_class
from bertc.ir.program.resolved import Resolved

Target = tuple[Family[Any], HfClass]
"""A family and its class for the exported folder."""


def target_of(
    program: Resolved, names: Iterable[str], pad: int, prefer: str | None = None
) -> Target | Obstacle:
    """Find the family and class for one network, or the obstacle to an export.

    ``names`` are the names of its weights; whole heads may be absent.
    """
    learned = {term.objective.head_name for term in program.terms()} | {"pooler"}
    names = [*names]
    parts = parts_of(names) & learned - _decoding(program)
    family = family_for(_holding(program, parts), pad, prefer)
    if isinstance(family, Obstacle):
        return family
    task = held_task(program, parts)
    if task is not None:
        holder = task_class(family, task, "pooler" in parts and program.encoder.pooler)
        return holder if isinstance(holder, Obstacle) else (family, holder)
    # A head that the layout has in part only is none of its own.
    without = {
        part_of(name) for name in set(names) - set(keys(family, transformer(program), names, {}))
    }
    chosen = family.class_for(parts - without) or family.class_for(frozenset({"pooler"}))
    assert chosen is not None, f"{family.title} has a class of the encoder alone"
    return family, chosen


def _decoding(program: Resolved) -> set[str]:
    """The heads that read a mask decoder, which no class of transformers has."""
    terms = (term.objective for term in program.terms() if program.encoder.head.decoder)
    return {one.head_name for one in terms if one.states.decoded}


def _holding(program: Resolved, parts: frozenset[str]) -> Resolved:
    """The program without the terms whose heads are absent."""
    stages = (
        stage.model_copy(
            update={
                "objective": tuple(t for t in stage.objective if t.objective.head_name in parts)
            }
        )
        for stage in program.stages
    )
    return program.model_copy(update={"stages": tuple(stages)})
