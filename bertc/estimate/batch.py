"""Bytes of the batch of a step: its rows as text, and the columns that are made of them."""

from bertc.estimate.blocks import Room
from bertc.ir.program.resolved import Stage, batches_at_once
from bertc.ir.terms.node import FP32, LONG

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
    by_token = LONG if stage.masked_terms() else 0
    by_token += 1 if stage.padded and not stage.pack else 0
    by_token += LONG * (stage.pack + bool(stage.encoder.languages) + stage.translates)
    starts = LONG * (stage.texts + 1) if stage.pack else 0
    networks = stage.networks()
    asked = sum(network.asked for network in networks if network.asked is not None)
    # Positions and weights of the tokens that a masking chose; which rows are translations.
    shared = stage.predictions() * (LONG + FP32) if stage.masked_terms() else 0
    shared += FP32 if stage.translates else 0
    own = sum(
        one.target_bytes(stage.row)
        for network in networks
        if network.terms
        for one in network.scored
    )
    return by_token * stage.seq + starts + LONG * asked + shared + own
