"""Pieces of a stage, each a stage as well, by the batches and objectives that its methods state."""

from collections.abc import Sequence

from bertc.ir.methods.method import Method, batches_of
from bertc.ir.program.stage import AnyStage, TextStage


def in_pieces(
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
