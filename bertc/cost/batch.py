"""Device memory of a step's batch: the rows as fetched, and the targets made from them."""

from bertc.cost.execution import DeviceBudget, networks_of
from bertc.cost.planning.plan import batches_at_once
from bertc.ir.program.reading import adaptive_unit
from bertc.ir.program.stage import Stage, TaskStage
from bertc.ir.terms.node import FP32, LONG

ID, SEGMENT = 4, 1  # bytes per token id and per segment id, as fetched
FACTS = 5
"""Integers stored per row: length, example id, copy, following token, direction."""


def batch_bytes(stage: Stage, budget: DeviceBudget) -> int:
    """Bytes of all batches corrupted in one call, and on a CPU of the rows read for the next."""
    if isinstance(stage, TaskStage):
        # Token ids and segment ids, and the example index of each token.
        at_once, row, ahead = 1, 3 * LONG * stage.seq, 2 * LONG * stage.seq
    else:
        at_once = min(stage.steps, batches_at_once(stage.tokens_per_step, budget.device))
        at_once = 1 if adaptive_unit(stage) else at_once
        row = text_bytes(stage) + targets_bytes(stage)
        ahead = (ID + SEGMENT) * stage.seq
    beside = ahead if budget.device == "cpu" else 0
    return at_once * stage.batch * stage.rows_an_example * (row + beside)


def text_bytes(stage: Stage) -> int:
    """Bytes per row of fetched text: token ids, segment ids and per-example facts."""
    examples, languages = 2 * stage.texts, 2
    return LONG * (2 * stage.seq + FACTS + examples + languages)


def targets_bytes(stage: Stage) -> int:
    """Bytes per row that corruption adds: encoder inputs and the targets of each term."""
    by_token = LONG if stage.masked_terms() else 0
    by_token += 1 if stage.padded and not stage.pack else 0
    by_token += LONG * (stage.pack + bool(stage.encoder.languages) + stage.translates)
    starts = LONG * (stage.texts + 1) if stage.pack else 0
    networks = networks_of(stage)
    outputs = sum((one.num_outputs or 0) + (one.num_decoded or 0) for one in networks)
    # Positions and weights of masked tokens, and a flag per row for translations.
    shared = stage.predictions() * (LONG + FP32) if stage.masked_terms() else 0
    shared += FP32 if stage.translates else 0
    scored = (one for network in networks if network.terms for one in network.scored)
    of_terms = sum(one.target_bytes(stage.row) for one in scored)
    return by_token * stage.seq + starts + LONG * outputs + shared + of_terms
