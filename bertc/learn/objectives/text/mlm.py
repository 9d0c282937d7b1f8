"""Masked language modelling: choice of tokens, and their replacements in the input.

Axes: b examples, s positions of a row, k predictions.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from bertc.ir.terms import masking
from bertc.ir.terms.masked import Masked
from bertc.learn.objectives import draws, term
from bertc.learn.objectives.targets import MicroBatch, Predictions, VocabTensors
from bertc.learn.objectives.text import choice
from bertc.learn.objectives.text.spans import choose_ngrams, ngram_draws, span_draws, span_keys
from bertc.model import EncoderInputs


class MaskedTensors(term.TokenTensors[Masked, Predictions, nn.Module]):
    """A term that masks tokens: mlm, or tlm, which counts only rows with translations."""

    def targets(self, rows: term.TextRows) -> tuple[EncoderInputs, Predictions]:
        assert rows.hidden is not None, "this term masks tokens"
        translated_b = rows.translated.float() if rows.stage.translates else None
        hidden = rows.hidden._replace(translated=translated_b)
        if self.node.ahead:
            hidden = hidden._replace(weights=hidden.weights * _has_one_before(hidden, rows.reading))
        return rows.reading, hidden

    def positions(self, targets: Predictions, batch: MicroBatch) -> tuple[Tensor, ...]:
        """The masked positions (b, k), or those before them."""
        positions_bk = targets.positions
        return ((positions_bk - 1).clamp(min=0) if self.node.ahead else positions_bk,)

    def ask(
        self, reading: EncoderInputs, places_b: Int[Tensor, "b"], mask: int
    ) -> tuple[EncoderInputs, Tensor]:
        return reading, (places_b - int(self.node.ahead)).clamp(min=0)

    def weights(self, targets: Predictions) -> Float[Tensor, "b k"]:
        """1 (b, k) for predictions in this term's rows, else 0."""
        if targets.translated is None:
            return targets.weights
        own_b = targets.translated if self.node.translations else 1 - targets.translated
        return targets.weights * own_b[:, None]

    def score(self, targets: Predictions, read: term.HeadInput[nn.Module]) -> term.Predicted:
        predicted = super().score(targets, read)
        if targets.counts is not None:
            weights_n = targets.weights.reshape(-1)
            right_n = weights_n * predicted.hits.reshape(-1)
            counts = torch.stack([weights_n, right_n])
            targets.counts.index_add_(1, targets.targets.reshape(-1), counts)
        return predicted

    def marks(self, targets: Predictions, row: int) -> set[int]:
        return term.marked(targets.positions, targets.weights, row)

    def explain(self, targets: Predictions, view: term.RowView) -> list[tuple[str, str]]:
        translated = targets.translated is not None and bool(targets.translated[view.row])
        if translated != self.node.translations:
            return []
        positions, length = self.marks(targets, view.row), view.length
        masked = sum(view.seen[place] == view.mask for place in positions)
        unchanged = sum(view.seen[place] == view.original[place] for place in positions)
        counted = f"{len(positions)} of {length} tokens ({len(positions) / length:.1%})"
        changed = f"{masked} masked, {len(positions) - masked - unchanged} random, {unchanged} kept"
        return [(self.node.kind, f"{counted}: {changed}")]


def _has_one_before(hidden: Predictions, reading: EncoderInputs) -> Bool[Tensor, "b k"]:
    """True where a predicted token (b, k) is not the first of its row or example."""
    has_bk, numbers_bs = hidden.positions > 0, reading.sequence_ids
    if numbers_bs is None:
        return has_bk
    before_bk = numbers_bs.gather(1, (hidden.positions - 1).clamp(min=0))
    return has_bk & (before_bk == numbers_bs.gather(1, hidden.positions))


def mask_tokens(
    objective: masking.Masks, rows: term.TextRows, over: float
) -> tuple[Int[Tensor, "b s"], Predictions]:
    """Token ids (b, s) after masking, and the predictions; ``over``: share of the steps made.

    1. Draw all random bits of an example at once, by its address.
    2. Choose the positions to predict by the unit: tokens, words, n-grams or spans.
    3. Draw what is written there: [MASK], a random token, or the token itself.
    """
    inputs, seq = rows.inputs, rows.inputs.token_ids.shape[1]
    predictions = objective.predictions(seq)
    lanes = [*_lanes(objective, seq, predictions), 1, predictions, int(objective.last > 0)]
    drawn = draws.bits(rows.key, inputs.copies, inputs.example_ids, sum(lanes))
    *places, chance, slot_bits_bk, alone = torch.split(drawn, lanes, dim=1)
    share = objective.share_at(over)
    positions_bk = _choose(objective, rows, share, chance[:, 0], places, predictions)
    if objective.last:
        last_bk = choice.last_alone(
            choice.find_text(inputs.token_ids, rows.real, rows.vocab), predictions
        )
        positions_bk = torch.where(draws.happens(alone, objective.last), last_bk, positions_bk)

    used_bk = positions_bk < seq
    slots_bk = torch.where(used_bk, positions_bk, 0)
    targets_bk = inputs.token_ids.gather(1, slots_bk)
    kind_bits_bk = slot_bits_bk
    if objective.replace_per == "span":
        kind_bits_bk = kind_bits_bk.gather(1, choice.runs(positions_bk, used_bk)[0])
    if not objective.distinct:  # drawn twice, replaced once: by [MASK] if either draw says so
        first_bk = torch.searchsorted(positions_bk, positions_bk)
        kind_bits_bk = kind_bits_bk.scatter_reduce(1, first_bk, kind_bits_bk, "amin")
        kind_bits_bk, slot_bits_bk = (x.gather(1, first_bk) for x in (kind_bits_bk, slot_bits_bk))
    masked, random = objective.replace.mask / 100, objective.replace.random / 100
    written_bk = targets_bk
    if random:
        drawn_bk = random_tokens(objective.random_from, rows.vocab, draws.another(slot_bits_bk))
        written_bk = torch.where(draws.happens(kind_bits_bk, masked + random), drawn_bk, targets_bk)
    written_bk = torch.where(draws.happens(kind_bits_bk, masked), rows.vocab.mask, written_bk)
    # Unused slots write into a column beyond the row, which is dropped. scatter_ would sort under
    # deterministic=yes.
    token_ids = torch.cat([inputs.token_ids, inputs.token_ids[:, :1]], dim=1)
    token_ids.scatter_reduce_(1, positions_bk, written_bk, "amax", include_self=False)
    return token_ids[:, :seq], Predictions(slots_bk, targets_bk, used_bk.float())


def _lanes(objective: masking.Masks, seq: int, predictions: int) -> tuple[int, ...]:
    """Number of random numbers per row for choosing its tokens, by use."""
    match objective.unit:
        case masking.TokenUnit() if not objective.distinct:
            return (predictions,)
        case masking.TokenUnit() | masking.AdaptiveUnit() | masking.WordUnit() | masking.OwnUnit():
            return (seq,)
        case masking.NgramUnit(max=most):
            return (seq, ngram_draws(most, objective.p, predictions))
        case masking.SpanUnit() as span:
            draws = span_draws(span, objective.p, predictions)
            return (draws, draws)


def _choose(
    objective: masking.Masks,
    rows: term.TextRows,
    share: float,
    chance_b: Int[Tensor, "b"],
    lanes: Sequence[Tensor],
    predictions: int,
) -> Int[Tensor, "b k"]:
    """Positions (b, k) to predict, ascending; s in unused slots."""
    inputs, vocab = rows.inputs, rows.vocab
    text = choice.find_text(inputs.token_ids, rows.real, vocab)
    if objective.mask_specials:
        text = text._replace(allowed=rows.real)
    if isinstance(objective.unit, masking.AdaptiveUnit):
        weights_bs = text.allowed.double()
        if vocab.weights is not None:
            weights_bs = weights_bs * vocab.weights[inputs.token_ids]
        count_b1, total_b1 = (x.sum(1, keepdim=True) for x in (text.allowed, weights_bs))
        chances_bs = share * count_b1 * weights_bs / total_b1.clamp(min=1e-9)
        drawn_bs = draws.unit64(lanes[0]) < chances_bs
        return choice.marked(drawn_bs & (drawn_bs.cumsum(1) <= predictions), predictions)
    counts_b = choice.counts(objective.count, share, inputs.lengths, text, chance_b, predictions)
    if not objective.distinct:
        return choice.drawn_again(text, lanes[0], counts_b)
    if isinstance(objective.unit, masking.TokenUnit):
        if objective.rare:
            scarcity_bs = choice.look_up(vocab.frequency, inputs.token_ids) ** objective.rare
            keys_bs = draws.weigh_keys(lanes[0], scarcity_bs, text.allowed)
        else:
            keys_bs = draws.order_keys(lanes[0], text.allowed)
        return choice.lowest(keys_bs, counts_b, predictions)
    words = choice.find_words(inputs.token_ids, text, vocab)
    match objective.unit:
        case masking.SpanUnit() as span:
            keys_bs = span_keys(span, words, text, inputs.lengths, lanes[0], lanes[1])
            return choice.lowest(keys_bs, counts_b, predictions)
        case masking.WordUnit():
            chosen_bs = choice.choose_words(words, lanes[0], counts_b, predictions)
        case masking.OwnUnit() as unit:
            units = choice.find_units(unit, rows, text, words)
            chosen_bs = choice.choose_words(units, lanes[0], counts_b, predictions)
        case masking.NgramUnit(max=most):
            chosen_bs = choose_ngrams(most, words, text, lanes[0], lanes[1], counts_b)
    return choice.marked(chosen_bs, predictions)


def random_tokens(
    source: Literal["vocabulary", "ordinary", "corpus"],
    vocab: VocabTensors,
    bits_bk: Int[Tensor, "b k"],
) -> Int[Tensor, "b k"]:
    """Random ids (b, k): uniform over the vocabulary, over ordinary tokens, or by corpus frequency.

    The first is BERT's, the second fairseq's, the third SpanBERT's.
    """
    match source:
        case "vocabulary":
            return draws.below(bits_bk, vocab.size)
        case "ordinary":
            rank_v = (~vocab.special).cumsum(0)
            return torch.searchsorted(rank_v, draws.below(bits_bk, rank_v[-1]) + 1)
        case "corpus":
            drawn_bk = draws.unit64(bits_bk).to(vocab.unigram_cdf.dtype)
            ids_bk = torch.searchsorted(vocab.unigram_cdf, drawn_bk, right=True)
            return ids_bk.clamp(max=vocab.size - 1)
