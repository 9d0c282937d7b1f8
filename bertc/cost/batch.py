"""Device memory of a step's batch: the rows as fetched, and the targets made from them."""

from bertc.cost.execution import DeviceBudget
from bertc.cost.planning.plan import batches_at_once
from bertc.ir.program.reading import adaptive_unit
from bertc.ir.program.stage import Stage, TaskStage

LONG = 8
"""Bytes of an id or position."""
BY_TOKEN, BY_PREDICTION = 3, 4
"""Numbers of a token: id, segment, masked id; of a predicted one: place, original, weight, row."""
FETCHED_BYTES = 5
"""Bytes per token id and segment id, as fetched."""


def batch_bytes(stage: Stage, budget: DeviceBudget) -> int:
    """Bytes of all batches corrupted in one call, and on a CPU of the rows read for the next."""
    at_once, ahead = 1, 2 * LONG
    if not isinstance(stage, TaskStage):
        ahead = FETCHED_BYTES
        if not adaptive_unit(stage):
            at_once = min(stage.steps, batches_at_once(stage.tokens_per_step, budget.device))
    row = LONG * ((BY_TOKEN + stage.pack) * stage.seq + BY_PREDICTION * stage.predictions())
    beside = ahead * stage.seq if budget.device == "cpu" else 0
    return at_once * stage.batch * stage.rows_an_example * (row + beside)
