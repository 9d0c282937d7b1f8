"""From a batch of text to what one stage asks of the encoder.

Axes: b rows, s positions of a row, m examples of a row.
"""

from typing import assert_never

import torch
import torch.nn.functional as F

from bertc.ir import address
from bertc.ir.learning.objective import Clm, Mlm, Nsp, Plm, Rtd, Sbo, Sop, Tlm
from bertc.ir.learning.task import Task
from bertc.ir.program.resolved import Stage
from bertc.ir.terms.masked import Masked
from bertc.ir.terms.masking import SpanUnit
from bertc.nn import Reading, places
from bertc.objectives.clm import next_tokens
from bertc.objectives.mlm import mask_tokens
from bertc.objectives.plm import permute_tokens
from bertc.objectives.rtd import choose_replaced, draw_replacements
from bertc.objectives.sbo import find_boundaries
from bertc.objectives.targets import Columns, Inputs, Predictions, Questions, Tables


def mask_key(seed: int) -> int:
    """The key of all masking in a run with this seed."""
    return address.key(seed, "mask")


def corrupt(stage: Stage, inputs: Inputs, tables: Tables, key: int) -> Columns:
    """The columns of a batch: ids to read, tokens to predict, questions about pairs.

    A pure function of each row, its copy number, its example id and ``key``, which is
    ``mask_key(seed)``: rows do not see each other. All shapes follow from (batch, seq) and stage.
    """
    lane_s = torch.arange(inputs.token_ids.shape[1], device=inputs.token_ids.device)
    real_bs = lane_s < inputs.lengths[:, None]
    translated_b = inputs.languages[:, 0] != inputs.languages[:, 1]
    token_ids_bs, masks = _hide(stage, inputs, real_bs, translated_b, tables, key)
    reading = Reading(
        token_ids=token_ids_bs,
        segment_ids=inputs.segment_ids,
        attention_mask=real_bs if stage.padded and not stage.pack else None,
        sequence_ids=_number(inputs, real_bs) if stage.pack else None,
        starts=_starts(inputs) if stage.pack else None,
        language_ids=_languages(inputs) if stage.encoder.languages else None,
        backward=inputs.backward if stage.ways > 1 else None,
    )
    columns = Columns(reading, inputs.token_ids, pairs=None, mlm=masks, sbo=None)
    replacing: Rtd | None = None
    for term in stage.objective:
        match term.objective:
            case Mlm() | Tlm():
                pass  # they hide tokens, above
            case Clm():
                columns = columns._replace(clm=next_tokens(inputs, reading.sequence_ids))
            case Plm() as objective:
                order, plm = permute_tokens(objective, inputs, real_bs, stage.parts, tables, key)
                reading = reading._replace(order=order)
                columns = columns._replace(reading=reading, plm=plm)
            case Sbo() as objective:
                assert masks is not None, "spans are hidden"
                columns = columns._replace(
                    sbo=find_boundaries(objective, inputs, real_bs, masks, tables)
                )
            case Nsp() | Sop():
                columns = columns._replace(pairs=_ask(inputs))
            case Rtd() as objective:
                replacing = objective
            case Task():
                raise AssertionError("what tasks read is made of examples, not of text")
            case _:
                assert_never(term.objective)
    if stage.translates:
        columns = _beside_translations(stage, columns, translated_b)
    if stage.generator is not None:
        original = columns.reading._replace(token_ids=inputs.token_ids)
        columns = columns._replace(reading=original, masked=columns.reading)
    if replacing and masks:
        rtd = choose_replaced(replacing, inputs, masks, real_bs, key)
        columns = columns._replace(rtd=rtd)
        if stage.generator is None:  # they depend on no network, so they are known already
            others_bk = draw_replacements(stage.replacements, tables, inputs, rtd, key)
            columns = columns._replace(mlm=None).replaced(others_bk)
    return asking(stage, columns)


def _hide(
    stage: Stage,
    inputs: Inputs,
    real_bs: torch.Tensor,
    translated_b: torch.Tensor,
    tables: Tables,
    key: int,
) -> tuple[torch.Tensor, Predictions | None]:
    """The token ids (b, s) with some hidden, and which; each term hides in rows of its own."""
    token_ids_bs, masks = inputs.token_ids, None
    for hiding in stage.masked_terms():
        hidden_bs, asked = mask_tokens(hiding, inputs, real_bs, tables, key)
        own_b1 = (translated_b == isinstance(hiding, Tlm))[:, None]
        token_ids_bs = hidden_bs if masks is None else hidden_bs.where(own_b1, token_ids_bs)
        masks = asked if masks is None else _either(own_b1, asked, masks)
    return token_ids_bs, masks


def asking(stage: Stage, columns: Columns) -> Columns:
    """With the positions at which each network's states are read, where those are few."""
    for network in stage.networks():
        if network.asked is None:
            continue
        asked_bk = torch.cat(list(columns.places(network.name).values()), dim=1)
        reading = columns.read_by(network.name)._replace(asked=asked_bk)
        if network.name == "generator":
            columns = columns._replace(masked=reading)
        else:
            columns = columns._replace(reading=reading)
    return columns


def _either(own_b1: torch.Tensor, asked: Predictions, other: Predictions) -> Predictions:
    """The predictions of the rows that are one's own, and the other's; the wider decides."""
    wide = max(asked.positions.shape[1], other.positions.shape[1])

    def chosen(own_bk: torch.Tensor, others_bk: torch.Tensor) -> torch.Tensor:
        own_bk = F.pad(own_bk, (0, wide - own_bk.shape[1]))
        return torch.where(own_b1, own_bk, F.pad(others_bk, (0, wide - others_bk.shape[1])))

    return Predictions(*map(chosen, asked, other))


def _beside_translations(stage: Stage, columns: Columns, translated_b: torch.Tensor) -> Columns:
    """Columns of which some rows hold a text and its translation, whose positions start again."""
    reading = columns.reading
    assert reading.segment_ids is not None, "segments tell the two texts apart"
    own_bs = reading.segment_ids * translated_b[:, None]
    if reading.sequence_ids is not None:
        own_bs = own_bs + 2 * reading.sequence_ids
    columns = columns._replace(
        reading=reading._replace(position_ids=places(own_bs)),
        translated=translated_b.float(),
    )
    if columns.sbo is None:
        return columns
    # Spans are asked about where there are spans.
    spans = {
        isinstance(t.objective, Tlm): isinstance(t.objective.unit, SpanUnit)
        for t in stage.objective
        if isinstance(t.objective, Masked)
    }
    asked_b = torch.where(translated_b, float(spans[True]), float(spans.get(False, False)))
    weights_bk = columns.sbo.weights * asked_b[:, None]
    return columns._replace(sbo=columns.sbo._replace(weights=weights_bk))


def _ask(inputs: Inputs) -> Questions:
    used_bm = inputs.starts < inputs.token_ids.shape[1]
    positions_bm = torch.where(used_bm, inputs.starts, 0)
    return Questions(positions_bm, inputs.pair_labels, used_bm.float())


def _languages(inputs: Inputs) -> torch.Tensor:
    """The language (b, s) of each token."""
    return inputs.languages.gather(1, inputs.segment_ids.clamp(max=1))


def _starts(inputs: Inputs) -> torch.Tensor:
    """Where the examples of each row begin, and its padding (b, m + 1)."""
    ends_b1 = inputs.lengths[:, None]
    return torch.cat([inputs.starts.minimum(ends_b1), ends_b1], dim=1)


def _number(inputs: Inputs, real_bs: torch.Tensor) -> torch.Tensor:
    """Which example of its row, from 1, each token (b, s) belongs to; 0 for padding."""
    b, seq = real_bs.shape
    # Places not used mark a column beyond the row, which is dropped.
    begins = torch.zeros(b, seq + 1, dtype=torch.long, device=real_bs.device)
    begins.scatter_(1, inputs.starts, 1)
    return torch.where(real_bs, begins[:, :seq].cumsum(1), 0)
