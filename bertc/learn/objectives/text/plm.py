"""Causal and permutation language modelling: targets, and a factorisation order.

Axes: b examples, s positions of a row, k predictions, l positions within a block.
"""

from itertools import accumulate

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int
from torch import Tensor, nn

from bertc.ir.terms.plm import Clm, Plm
from bertc.learn.objectives import draws
from bertc.learn.objectives.targets import (
    Inputs,
    MicroBatch,
    NextTokenTargets,
    Predictions,
    VocabTensors,
)
from bertc.learn.objectives.term import RowView, TextRows, TokenTensors, marked
from bertc.learn.objectives.text.choice import find_text, find_words, lowest
from bertc.learn.objectives.text.spans import harmonic
from bertc.model import EncoderInputs, PermutationMask


class ClmTensors(TokenTensors[Clm, NextTokenTargets, nn.Module]):
    """Next-token prediction."""

    def targets(self, rows: TextRows) -> tuple[EncoderInputs, NextTokenTargets]:
        """The next token of the same row and example (b, s)."""
        inputs, sequence_ids_bs = rows.inputs, rows.reading.sequence_ids
        goes_on_b1 = inputs.following[:, None] >= 0
        after_b1 = inputs.following[:, None].clamp(min=0)
        targets_bs = torch.cat([inputs.token_ids[:, 1:], after_b1], dim=1)
        lane_s = torch.arange(targets_bs.shape[1], device=targets_bs.device)
        told_bs = lane_s < inputs.lengths[:, None] - (~goes_on_b1).long()
        if sequence_ids_bs is not None:
            told_bs = told_bs & F.pad(sequence_ids_bs.diff(dim=1) == 0, (0, 1), value=True)
        return rows.reading, NextTokenTargets(targets_bs, told_bs.float())

    def explain(self, targets: NextTokenTargets, view: RowView) -> list[tuple[str, str]]:
        count = int(targets.weights[view.row].sum())
        return [("clm", f"{count} tokens predicted from those before")]


class PlmTensors(TokenTensors[Plm, Predictions, nn.Module]):
    """Prediction of tokens from those before them in a random order."""

    def targets(self, rows: TextRows) -> tuple[EncoderInputs, Predictions]:
        """The targets, and encoder inputs with a random factorisation order of each row's tokens.

        Tokens that are not targets come first and attend to each other; every token attends to
        them. Then come targets and special tokens, of which the latter are never predicted (XLNet
        data_utils.py, _local_perm). Each part of a row has targets and an order of its own, and
        attends to the parts before it.
        """
        inputs, real_bs, vocab = rows.inputs, rows.real, rows.vocab
        seq, parts = inputs.token_ids.shape[1], rows.stage.format.parts(rows.stage.seq)
        blocks = [min(self.node.block or part, part) for part in parts]
        drawn = draws.bits(rows.key, inputs.copies, inputs.example_ids, 2 * seq + sum(blocks))
        span_bits_bs, fill_bits_bs, *order_bits = torch.split(drawn, [seq, seq, *blocks], dim=1)
        chosen_bk = choose(self.node, inputs, parts, vocab, span_bits_bs, fill_bits_bs)

        ordinary_bs = find_text(inputs.token_ids, real_bs, vocab).ordinary
        # Unused slots mark a column beyond the row, which is dropped.
        marks = torch.zeros(len(chosen_bk), seq + 1, dtype=torch.bool, device=real_bs.device)
        told_bs = marks.scatter_(1, chosen_bk, True)[:, :seq]
        positions_bk = chosen_bk.clamp(max=seq - 1)
        used_bk = (chosen_bk < seq) & ordinary_bs.gather(1, positions_bk)
        positions_bk = torch.where(used_bk, positions_bk, 0)
        targets_bk = inputs.token_ids.gather(1, positions_bk)

        places, firsts = [], []
        for number, (begin, part) in enumerate(laid_out(parts)):
            # Each part has one extra rank, for its tokens that are not targets.
            places.append(shuffle_ranks(order_bits[number], part) + (begin + number))
            firsts.append(torch.full((part,), begin + number - 1, device=real_bs.device))
        place_bs, untold_s = torch.cat(places, dim=1), torch.cat(firsts)
        first_bs = ordinary_bs & ~told_bs
        rank_bs = torch.where(first_bs, untold_s, torch.where(real_bs, place_bs, draws.LAST))
        before_bs = torch.where(first_bs, untold_s + 1, place_bs + (~ordinary_bs).long())
        order = PermutationMask(rank_bs, before_bs, positions_bk)
        targets = Predictions(positions_bk, targets_bk, used_bk.float())
        return rows.reading._replace(permutation=order), targets

    def positions(self, targets: Predictions, batch: MicroBatch) -> tuple[Tensor, ...]:
        """Positions (b, k) of the query-stream states, which follow the row's own."""
        b, seq = batch.originals.shape
        lane_k = torch.arange(targets.positions.shape[1], device=batch.originals.device)
        return ((seq + lane_k).expand(b, -1),)

    def turns(self, targets: Predictions, batch: MicroBatch, row: int) -> dict[int, int]:
        order = batch.reading.permutation
        assert order is not None, "plm inputs have a permutation mask"
        places = order.rank[row].tolist()
        positions = marked(targets.positions, targets.weights, row)
        return {place: n for n, place in enumerate(sorted(positions, key=places.__getitem__), 1)}

    def explain(self, targets: Predictions, view: RowView) -> list[tuple[str, str]]:
        count = len(marked(targets.positions, targets.weights, view.row))
        counted = f"{count} of {view.length} tokens ({count / view.length:.1%})"
        order = "each predicted from those with lower numbers and all without one"
        return [("plm", f"{counted}, {order}")]

    def ask(
        self, reading: EncoderInputs, places_b: Int[Tensor, "b"], mask: int
    ) -> tuple[EncoderInputs, Tensor]:
        """Query-stream states at ``places_b``, which attend to every unmasked token."""
        rank_bs = (reading.token_ids == mask).long()
        order = PermutationMask(rank_bs, torch.ones_like(rank_bs), places_b[:, None])
        last_b = torch.full_like(places_b, reading.token_ids.shape[1])
        return reading._replace(permutation=order), last_b


def laid_out(parts: tuple[int, ...]) -> list[tuple[int, int]]:
    """Start and length of each part of a row."""
    return list(zip(accumulate(parts, initial=0), parts, strict=False))


def choose(
    objective: Plm,
    inputs: Inputs,
    parts: tuple[int, ...],
    vocab: VocabTensors,
    span_bits_bs: Int[Tensor, "b s"],
    fill_bits_bs: Int[Tensor, "b s"],
) -> Int[Tensor, "b k"]:
    """Positions (b, k) of target spans, filled up with single tokens; s in unused slots."""
    seq = inputs.token_ids.shape[1]
    most, lane_s = objective.predictions(seq), torch.arange(seq, device=span_bits_bs.device)
    shares = [most * part // seq for part in parts[1:]]
    chosen = []
    for (begin, part), share in zip(laid_out(parts), (most - sum(shares), *shares), strict=True):
        if not share:
            continue
        lanes, lane_p = slice(begin, begin + part), lane_s[:part]
        turned_bp = torch.where(inputs.backward[:, None] > 0, part - 1 - lane_p, lane_p)
        text = inputs._replace(
            token_ids=inputs.token_ids[:, lanes].gather(1, turned_bp),
            lengths=(inputs.lengths - begin).clamp(0, part),
        )
        counts_b = (text.lengths * share // part).clamp(min=1)
        real_bp = lane_p < text.lengths[:, None]
        marks_bp = find_spans(objective, text, real_bp, vocab, span_bits_bs[:, lanes])
        # Marked tokens sort first, with the position in the low bits.
        keys_bp = draws.order_keys(fill_bits_bs[:, lanes] & draws.LAST, real_bp)
        keys_bp = torch.where(marks_bp, lane_p - (1 << part.bit_length()), keys_bp)
        chosen_bk = lowest(keys_bp, counts_b, share)
        positions_bk = turned_bp.gather(1, chosen_bk.clamp(max=part - 1)) + begin
        chosen.append(torch.where(chosen_bk < part, positions_bk, seq))
    return torch.cat(chosen, dim=1)


def shuffle_ranks(bits_bl: Int[Tensor, "b l"], seq: int) -> Int[Tensor, "b {seq}"]:
    """Ranks (b, s) of the tokens: shuffled within blocks of l, in the same way in all blocks.

    The release shuffles its block permutations like this (data_utils.py, _local_perm).
    """
    b, block = bits_bl.shape
    keys_bl = draws.order_keys(bits_bl, torch.ones_like(bits_bl, dtype=torch.bool))
    place_bl = draws.lane_of(draws.smallest(keys_bl, block), block)
    begins = torch.arange(0, seq, block, device=bits_bl.device)
    return (begins[:, None] + place_bl[:, None, :]).flatten(1)


def find_spans(
    objective: Plm,
    inputs: Inputs,
    real_bs: Bool[Tensor, "b s"],
    vocab: VocabTensors,
    bits_bs: Int[Tensor, "b s"],
) -> Bool[Tensor, "b s"]:
    """Mask (b, s) of spans of n words or pieces, each within a context of k n others.

    The context is split around its span at random; the next one begins where it ends. The successor
    of every position is computed at once, then the chain from position 0 is followed by pointer
    doubling.
    """
    text = find_text(inputs.token_ids, real_bs, vocab)
    words = find_words(inputs.token_ids, text, vocab)
    b, seq = inputs.token_ids.shape
    lane_bs = torch.arange(seq, device=bits_bs.device).expand(b, seq)
    most_bs = torch.full_like(lane_bs, objective.max - 1)
    n_bs = harmonic(draws.unit(bits_bs), most_bs, objective.max) + 1
    left_bs = draws.below(draws.another(bits_bs), objective.k * n_bs)

    # Word m begins at begin[m]. The first word at or after a position is the word of its last
    # token before, plus one unless it begins there.
    at_bs = (lane_bs + left_bs).clamp(max=seq - 1)
    number_bs = words.number.gather(1, at_bs)
    number_bs = number_bs + (words.begin.gather(1, number_bs) < at_bs)
    first_bs = words.begin.gather(1, number_bs)
    if objective.unit == "pieces":
        end_bs = first_bs + n_bs
    else:
        end_bs = words.begin.gather(1, (number_bs + n_bs).clamp(max=seq + 1))
    # A span that reaches the end of the text is dropped (data_utils.py, _sample_mask).
    stands_bs = (lane_bs + left_bs < seq) & (end_bs < inputs.lengths[:, None])
    next_bs = end_bs + objective.k * n_bs - left_bs
    next_bs = torch.where(stands_bs, next_bs, seq).clamp(max=seq)
    begins_bs = chained(next_bs, 1 + seq // (objective.k + 1))
    return draws.union(first_bs, torch.where(begins_bs & stands_bs, end_bs, 0), seq)


def chained(next_bs: Int[Tensor, "b s"], longest: int) -> Bool[Tensor, "b s"]:
    """Mask (b, s) of the positions reached from 0 by following ``next_bs``; s is the end."""
    b, seq = next_bs.shape
    jump = torch.cat([next_bs, torch.full_like(next_bs[:, :1], seq)], dim=1)
    marks = torch.zeros(b, seq + 1, dtype=torch.long, device=next_bs.device)
    marks[:, 0] = 1
    for _ in range(longest.bit_length()):
        marks = marks.scatter_reduce(1, jump, marks, "amax")
        jump = jump.gather(1, jump)
    return marks[:, :seq] > 0
