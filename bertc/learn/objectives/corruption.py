"""Corruption: from a batch of text to encoder inputs and targets.

Axes: b rows, s positions of a row, m examples of a row.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor

from bertc.ir import address
from bertc.ir.program import Stage
from bertc.ir.terms.masking import kind_names
from bertc.learn.objectives.targets import Inputs, MicroBatch, Predictions, VocabTensors
from bertc.learn.objectives.term import TextRows
from bertc.learn.objectives.terms import joined, with_output_positions
from bertc.learn.objectives.text.mlm import mask_tokens
from bertc.model import EncoderInputs, restarting_positions


def mask_key(seed: int) -> int:
    """The random key of all masking in a run with this seed."""
    return address.key(seed, "mask")


def corrupt(
    stage: Stage, inputs: Inputs, vocab: VocabTensors, key: int, over: float = 0.0
) -> MicroBatch:
    """Encoder inputs and targets of a batch.

    A pure function of each row, its copy number, its example id, ``key`` (``mask_key(seed)``) and
    the share of the stage's steps that are ``over``: rows are independent. All shapes follow from
    (batch, seq) and the stage.
    """
    lane_s = torch.arange(inputs.token_ids.shape[1], device=inputs.token_ids.device)
    real_bs = lane_s < inputs.lengths[:, None]
    translated_b = inputs.languages[:, 0] != inputs.languages[:, 1]
    originals = EncoderInputs(inputs.token_ids)
    rows = TextRows(stage, inputs, originals, real_bs, translated_b, None, vocab, key)
    token_ids_bs, hidden = inputs.token_ids, None
    for hiding in stage.masked_terms():  # each term masks its own rows
        hidden_bs, predictions = mask_tokens(hiding, rows, over)
        own_b1 = (translated_b == hiding.translations)[:, None]
        token_ids_bs = hidden_bs if hidden is None else hidden_bs.where(own_b1, token_ids_bs)
        hidden = predictions if hidden is None else _either(own_b1, predictions, hidden)
    rows = rows._replace(reading=_reading(rows, token_ids_bs), hidden=hidden)
    terms: dict[str, Any] = {}
    scored = (objective for network in stage.networks() for objective in network.scored)
    for term in joined((*(term.objective for term in stage.objective), *scored)):
        if term.name not in terms:
            reading, terms[term.name] = term.tensors.targets(rows)
            rows = rows._replace(reading=reading)
    batch = MicroBatch(rows.reading, inputs.token_ids, terms)
    if stage.sampled is not None:
        original = rows.reading._replace(token_ids=inputs.token_ids)
        batch = batch._replace(reading=original, masked=rows.reading)
    return with_output_positions(stage, batch)


def with_kinds(stage: Stage, batch: MicroBatch, mask: int) -> MicroBatch:
    """The same with the predictions of masked tokens by kind too; ``mask`` is the id of [MASK]."""
    token_ids_bs, terms = (batch.masked or batch.reading).token_ids, dict(batch.terms)
    for term in stage.objective:
        if masks := term.objective.masks:
            predictions: Predictions = terms[term.name]
            inputs_bk = token_ids_bs.gather(1, predictions.positions)
            masked_bk = (inputs_bk == mask) & bool(masks.replace.mask)
            same_bk = ~masked_bk & (inputs_bk == predictions.targets)
            kinds = (masked_bk, ~masked_bk & ~same_bk, same_bk)
            for name, of_bk in zip(kind_names(term.name), kinds, strict=True):
                terms[name] = predictions._replace(weights=predictions.weights * of_bk)
    return batch._replace(terms=terms)


def with_guesses(stage: Stage, batch: MicroBatch, guesses_bk: Int[Tensor, "b k"]) -> MicroBatch:
    """Insert the guesses (b, k) of a sampled network into the inputs of the networks after it."""
    for term in joined(term.objective for term in stage.objective):
        reading = term.tensors.take_guesses(batch.terms[term.name], batch, guesses_bk)
        batch = batch._replace(reading=reading)
    return batch


def _reading(rows: TextRows, token_ids_bs: Int[Tensor, "b s"]) -> EncoderInputs:
    """Encoder inputs before any term changes them."""
    stage, inputs = rows.stage, rows.inputs
    sequence_ids_bs = starts_bm = position_ids_bs = None
    if stage.pack:
        (b, seq), ends_b1 = rows.real.shape, inputs.lengths[:, None]
        # Examples are numbered from 1. Unused slots mark a column beyond the row, which is dropped.
        begins = torch.zeros(b, seq + 1, dtype=torch.long, device=rows.real.device)
        numbers_bs = begins.scatter_(1, inputs.starts, 1)[:, :seq].cumsum(1)
        sequence_ids_bs = torch.where(rows.real, numbers_bs, 0)
        starts_bm = torch.cat([inputs.starts.minimum(ends_b1), ends_b1], dim=1)  # and of padding
    if stage.translates:  # positions restart at the translation
        text_bs = inputs.segment_ids * rows.translated[:, None]
        if sequence_ids_bs is not None:
            text_bs = text_bs + 2 * sequence_ids_bs
        position_ids_bs = restarting_positions(text_bs)
    language_ids_bs = None
    if stage.encoder.languages:
        language_ids_bs = inputs.languages.gather(1, inputs.segment_ids.clamp(max=1))
    return EncoderInputs(
        token_ids=token_ids_bs, segment_ids=inputs.segment_ids,
        attention_mask=rows.real if stage.padded and not stage.pack else None,
        sequence_ids=sequence_ids_bs, starts=starts_bm, language_ids=language_ids_bs,
        position_ids=position_ids_bs,
        backward=inputs.backward if stage.format.directions > 1 else None,
        causal=stage.encoder.causal or None,
    )  # fmt: skip


def _either(own_b1: Bool[Tensor, "b 1"], its: Predictions, rest: Predictions) -> Predictions:
    """Select per row between two prediction sets, padded to the wider."""
    wide = max(its.positions.shape[1], rest.positions.shape[1])

    def choose(*both: Tensor) -> Tensor:
        own_bk, rest_bk = (F.pad(x_bk, (0, wide - x_bk.shape[1])) for x_bk in both)
        return torch.where(own_b1, own_bk, rest_bk)

    return Predictions(*map(choose, its[:3], rest[:3]))
