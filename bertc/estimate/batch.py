"""Bytes of the batch of a step: its rows as text, and the columns that are made of them."""

from typing import assert_never

from bertc.estimate.blocks import Room
from bertc.estimate.execution import FP32
from bertc.ir.learning.objective import Clm, Masked, Mlm, Nsp, Plm, Pretraining, Rtd, Sbo, Sop, Tlm
from bertc.ir.learning.task import Task
from bertc.ir.program.resolved import Stage, batches_at_once

LONG = 8
ID, SEGMENT = 4, 1  # of a token, as its text was fetched
FACTS = 5
"""Numbers a row: length, example, copy, what follows, direction."""


def batch_bytes(stage: Stage, room: Room) -> int:
    """The rows corrupted together, as text and as columns, and on a CPU those read ahead of them.

    Rows of a task are examples, of which each batch is made by itself.
    """
    row = text_bytes(stage) + columns_bytes(stage)
    if stage.tasks:
        at_once, ahead = 1, 2 * LONG * stage.seq
    else:
        at_once = min(stage.steps, batches_at_once(stage.tokens_per_step, room.device))
        ahead = (ID + SEGMENT) * stage.seq
    beside = ahead if room.device == "cpu" else 0
    return at_once * stage.batch * stage.rows_an_example * (row + beside)


def text_bytes(stage: Stage) -> int:
    """Of a row as text: token ids, segment ids, and what is known of its examples."""
    if stage.tasks:
        return 2 * LONG * stage.seq
    examples, languages = 2 * stage.texts, 2
    return LONG * (2 * stage.seq + FACTS + examples + languages)


def columns_bytes(stage: Stage) -> int:
    """Of a row what its corruption adds: what the networks read, and what each term asks."""
    if stage.tasks:
        return LONG * stage.seq  # which example each token is of
    by_token = LONG if stage.hiding() else 0
    by_token += 1 if stage.padded and not stage.pack else 0
    by_token += LONG * (stage.pack + bool(stage.encoder.languages) + stage.translates)
    terms = (t.objective for t in stage.objective if not isinstance(t.objective, Task))
    starts = LONG * (stage.texts + 1) if stage.pack else 0
    asked = sum(n.asked for n in stage.networks() if n.asked is not None)
    own = sum(_term_bytes(stage, each) for each in terms)
    return by_token * stage.seq + starts + LONG * asked + own


def _term_bytes(stage: Stage, objective: Pretraining) -> int:
    """Of a row what one term asks, without what it has in common with a term before it."""
    predicted = stage.predictions()
    match objective:
        case Mlm() | Tlm():
            # Positions, targets and weights, of all rows; and for tlm which rows are its own.
            own = 2 * LONG + FP32 if objective is stage.masking else 0
            return predicted * own + (FP32 if isinstance(objective, Tlm) else 0)
        case Clm():
            return stage.seq * (LONG + FP32)
        case Plm():  # the order and its bounds; positions, targets and weights
            return stage.seq * 2 * LONG + predicted * (2 * LONG + FP32)
        case Sbo():  # the tokens around a span, places in it, and weights
            return predicted * (3 * LONG + FP32)
        case Nsp() | Sop():  # labels came with the text
            return stage.texts * (LONG + FP32)
        case Rtd():  # chances; which tokens are judged; what else is chosen by the term that hides
            judged = FP32 * stage.seq if objective.over == "all" else 0
            hides = any(isinstance(term.objective, Masked) for term in stage.objective)
            return predicted * (LONG if hides else 2 * LONG + FP32) + judged
        case unreachable:
            assert_never(unreachable)
