"""Readings of a stage: rows of two directions, masks that change, methods at a step; its pieces."""

from collections.abc import Sequence
from itertools import compress, pairwise

from bertc.ir.base import once
from bertc.ir.learning import Term
from bertc.ir.methods.method import Held, Method, batches_of
from bertc.ir.program.stage import AnyStage, Stage, TextStage
from bertc.ir.terms.masking import AdaptiveUnit


def causal_rows(terms: Sequence[Term], batch: int) -> tuple[float, int]:
    """Rows of a batch that are read causally, next to masked ones: their share, and whole rows."""
    share = sum(term.weight for term in terms if term.objective.order == "forward")
    return batch * share, min(max(1, round(batch * share)), batch - 1)


@once
def split_rows(stage: Stage) -> tuple[Stage, ...]:
    """The stage, or one of its rows that are masked and one of those that are read causally."""
    ahead = [term for term in stage.objective if term.objective.order == "forward"]
    if len(ahead) in (0, len(stage.objective)):
        return (stage,)
    unordered = tuple(term for term in stage.objective if term not in ahead)
    rows = causal_rows(stage.objective, stage.batch)[1]
    causal = stage.encoder.model_copy(update={"causal": True})
    masked = {"objective": unordered, "batch": stage.batch - rows}
    turned = {"objective": tuple(ahead), "batch": rows, "encoder": causal}
    return stage.model_copy(update=masked), stage.model_copy(update=turned)


def rows_by_direction(stage: Stage, rows: range) -> tuple[list[int], ...]:
    """Rows of a batch by direction; those read causally are as far apart as possible."""
    *_, last = split_rows(stage)
    if last is stage:
        return ([*rows],)
    before = [row * last.batch // stage.batch for row in (*rows, rows.stop)]
    turned = [*compress(rows, (after > number for number, after in pairwise(before)))]
    return sorted({*rows}.difference(turned)), turned


def adaptive_unit(stage: Stage) -> AdaptiveUnit | None:
    """The unit of masks that follow what the network predicts right, if a term has them."""
    units = (masks.unit for masks in stage.masked_terms())
    return next((unit for unit in units if isinstance(unit, AdaptiveUnit)), None)


def part_over(stage: Stage, number: int) -> float:
    """The part of a stage's steps before batch ``number`` of its text."""
    return max(0, number - stage.first_batch) / stage.steps


def place_methods(stage: AnyStage) -> AnyStage:
    """The stage with methods that know its first and its last step."""
    steps = stage.first_step, stage.first_step + stage.steps
    pairs = ((m, m.of_stage(*steps)) for m in stage.methods)
    return stage.model_copy(update={m.setting: new for m, new in pairs if new is not m})


def stand_in(stage: Stage, step: int) -> Held | None:
    """The tensors that stand for the weights after run step ``step``, if a method has some."""
    begun = (method.holds for method in stage.methods if method.has_begun(step))
    return next((tensors for tensors in begun if tensors and tensors.evaluated), None)


def cut_by_batch(
    stage: AnyStage, methods: Sequence[Method], rows_read: int, first: int, last: int
) -> list[AnyStage]:
    """A stage for each size of its batches, named after it, that reads on where the last ended.

    ``rows_read``: rows of its text that were read before. What changes with steps does so from step
    ``first`` to ``last`` of the run.
    """
    removing = [method.setting for method in methods if method.removes]
    nothing = {name: TextStage.model_fields[name].default for name in removing}
    pieces = batches_of(methods, stage.batch, stage.steps)
    stages, begin = list[AnyStage](), stage.first_step
    for rows, steps in pieces:
        first_batch, terms = -(-rows_read // rows), stage.objective
        over = (begin - first) / (last - first)
        for method in methods:
            terms = method.terms_between(terms, over, over + steps / (last - first))
        update = {
            "name": f"{stage.name}-{rows}" if len(pieces) > 1 else stage.name,
            "batch": rows,
            "steps": steps,
            "first_step": begin,
            "first_batch": first_batch,
            "objective": terms,
            "grow": stage.grow if begin == stage.first_step else None,
            **({} if begin + steps == stage.first_step + stage.steps else nothing),
        }
        stages.append(stage.model_copy(update=update))
        begin, rows_read = begin + steps, (first_batch + steps) * rows
    return stages
