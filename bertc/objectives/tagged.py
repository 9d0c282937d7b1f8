"""Masking of the spans that a tagger found, among whole words; replacement by tag.

Axes: b examples, s positions of a row, k predictions, v token ids, t tags, n units of a row.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int

from bertc.ir.terms.masking import TAG_BITS, TaggedUnit
from bertc.objectives.sampling.draws import LAST, happens, lane_of, order_keys, smallest, unit64
from bertc.objectives.targets import VocabTensors
from bertc.objectives.words import ROUNDS, Text, Words, numbered


def find_spans(codes_bs: Int[torch.Tensor, "b s"], text: Text) -> Words:
    """Number the runs of one code as words are; a token outside of spans is a word by itself."""
    codes_bs = torch.where(text.ordinary, codes_bs, 0)
    within_bs = codes_bs > 0
    before_bs = F.pad(codes_bs[:, :-1], (1, 0))
    begins_bs = ~within_bs | (codes_bs != before_bs)
    return numbered(begins_bs, begins_bs & within_bs & text.allowed)


def choose_tagged(
    unit: TaggedUnit,
    units: tuple[Words, Words],
    turn_bits_bs: Int[torch.Tensor, "b s"],
    order_bits: Sequence[Int[torch.Tensor, "b s"]],
    counts_b: Int[torch.Tensor, "b"],
    predictions: int,
) -> Bool[torch.Tensor, "b s"]:
    """Spans and whole words in turns up to the budget, as a mask (b, s) over their tokens.

    ``units`` are both, ``order_bits`` their random numbers. Each draw takes a span with probability
    ``unit.share``, else a word, which may stand in a span (SpanBERT, masking.py
    NERSpanMaskingScheme). Each is drawn once, in random order; when there are no more spans, words
    fill the budget. What would exceed it is skipped, not cut.
    """
    span_turn_bs = happens(turn_bits_bs, unit.share)
    turns = (span_turn_bs, ~span_turn_bs)
    draws = [
        _draws(each, bits_bs, turns_bs, after)
        for after, (each, bits_bs, turns_bs) in enumerate(
            zip(units, order_bits, turns, strict=True), 1
        )
    ]
    taken_bs, left_b1 = torch.zeros_like(span_turn_bs), counts_b[:, None]
    for _ in range(ROUNDS):
        # Units that no longer fit are passed over; then all are taken up to the first that would
        # exceed the budget.
        draw_bs = torch.full_like(draws[0], LAST)
        for each, of_each_bs in zip(units, draws, strict=True):
            fits_bs = ~taken_bs & (_added(each, taken_bs) <= left_b1)
            draw_bs = torch.where(fits_bs, draw_bs.minimum(of_each_bs), draw_bs)
        ranked = smallest(F.pad(draw_bs, (0, 1), value=LAST), predictions + 1)
        now_bs = draw_bs < ranked.gather(1, left_b1)
        taken_bs, left_b1 = taken_bs | now_bs, left_b1 - now_bs.sum(1, keepdim=True)
    return taken_bs


def _draws(
    units: Words,
    bits_bs: Int[torch.Tensor, "b s"],
    turns_bs: Bool[torch.Tensor, "b s"],
    after: int,
) -> Int[torch.Tensor, "b s"]:
    """The draw (b, s) that takes the unit of each token; ``LAST`` if none does.

    Unit i in random order is taken at the i-th of its turns, or ``after`` s + i if it has fewer.
    """
    seq = bits_bs.shape[1]
    keys_bn = smallest(order_keys(bits_bs, units.heads), seq)
    head_bn = torch.where(keys_bn == LAST, seq, lane_of(keys_bn, seq))
    rank_n = torch.arange(seq, device=bits_bs.device)
    turn_bn = torch.searchsorted(turns_bs.cumsum(1), (rank_n + 1).expand_as(bits_bs).contiguous())
    draw_bn = torch.where(turn_bn < seq, turn_bn, after * seq + rank_n)
    # Column s collects the places beyond the last unit, and is dropped.
    draws = torch.full((len(bits_bs), seq + 1), LAST, device=bits_bs.device)
    draws.scatter_reduce_(1, head_bn, draw_bn, "amin")
    draws[:, seq] = LAST
    return draws.gather(1, units.begin.gather(1, units.number))


def _added(units: Words, taken_bs: Bool[torch.Tensor, "b s"]) -> Int[torch.Tensor, "b s"]:
    """Tokens (b, s) of the unit of each token that are not yet taken."""
    open_b = F.pad((~taken_bs).cumsum(1), (1, 0))
    first_bs, end_bs = (units.begin.gather(1, units.number + at) for at in (0, 1))
    return open_b.gather(1, end_bs) - open_b.gather(1, first_bs)


def same_tag_tokens(
    vocab: VocabTensors,
    tags_bk: Int[torch.Tensor, "b k"],
    bits_bk: Int[torch.Tensor, "b k"],
) -> Int[torch.Tensor, "b k"]:
    """Random ids (b, k) by their frequency among the tokens of a tag.

    Tags that the training text lacks draw from all of it.
    """
    ends_t = vocab.by_tag[vocab.size - 1 :: vocab.size]
    begins_t = F.pad(ends_t[:-1], (1, 0))
    tags_bk = (tags_bk & ((1 << TAG_BITS) - 1)).clamp(max=len(ends_t) - 1)
    begin_bk, end_bk = begins_t[tags_bk], ends_t[tags_bk]
    known_bk = end_bk > begin_bk
    begin_bk, end_bk = torch.where(known_bk, begin_bk, 0), torch.where(known_bk, end_bk, 1)
    at_bk = begin_bk + unit64(bits_bk).to(ends_t.dtype) * (end_bk - begin_bk)
    drawn_bk = torch.searchsorted(vocab.by_tag, at_bk, right=True)
    return drawn_bk.clamp(max=len(vocab.by_tag) - 1) % vocab.size
