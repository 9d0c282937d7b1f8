"""A stage in pieces, where its batches grow or its share of masked tokens changes."""

from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

from bertc.ir.base import Node
from bertc.ir.changing.pruning import NOTHING, Units
from bertc.ir.learning.batch_warmup import BatchWarmup
from bertc.ir.learning.objective import Objective
from bertc.ir.program.stage import AnyStage
from bertc.ir.terms.masking import Masks

_Value = TypeVar("_Value")
_Pieces = Sequence[tuple[_Value, int]]
"""Values, each with its number of steps."""


def in_pieces(batches: BatchWarmup, stage: AnyStage, rows_read: int) -> list[AnyStage]:
    """A stage for each size of its batches and each share of masked tokens, named after them.

    It changes its network in the first, and removes heads or neurons in the last. ``rows_read``:
    rows of its text that were read before.
    """
    sizes = batches.pieces(stage.batch, stage.steps)
    terms = [_pieces(term.objective, stage.steps) for term in stage.objective]
    ends = sorted({end for pieces in (sizes, *terms) for end in _ends(pieces)})
    stages, begin = list[AnyStage](), 0
    prunes_at = ends[-1] if isinstance(stage.prune, Units) else 0
    for end in ends:
        rows, objectives = _at(sizes, begin), [_at(pieces, begin) for pieces in terms]
        first_batch = -(-rows_read // rows)
        names = [str(rows)] if len(sizes) > 1 else []
        for objective, pieces in zip(objectives, terms, strict=True):
            masks = objective if isinstance(objective, Masks) and len(pieces) > 1 else None
            names += [f"{masks.p:g}"] if masks else []
        update = {
            "name": "-".join([stage.name, *names]),
            "batch": rows,
            "steps": end - begin,
            "first_step": stage.first_step + begin,
            "first_batch": first_batch,
            "objective": tuple(
                term.model_copy(update={"objective": objective})
                for term, objective in zip(stage.objective, objectives, strict=True)
            ),
            "grow": stage.grow if begin == 0 else None,
            "prune": stage.prune if prunes_at in (begin, end) else NOTHING,
        }
        stages.append(stage.model_copy(update=update))
        begin, rows_read = end, (first_batch + end - begin) * rows
    return stages


def _pieces(objective: Objective, steps: int) -> Sequence[tuple[Node, int]]:
    """A term in each piece of a stage, where it masks another share of tokens."""
    return objective.masks.pieces(steps) if objective.masks else ((objective, steps),)


def _ends(pieces: _Pieces[_Value]) -> list[int]:
    """The step after the last one of each piece."""
    return list(accumulate(steps for _, steps in pieces))


def _at(pieces: _Pieces[_Value], step: int) -> _Value:
    """The value at a step."""
    ends = _ends(pieces)
    return next(value for (value, _), end in zip(pieces, ends, strict=True) if step < end)
