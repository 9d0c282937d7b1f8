"""Choice of tokens: the words of a row, the number of predictions, and their places in text order.

Axes: b examples, s positions of a row, m words considered, k predictions. An unused slot of (b, k)
positions holds s, so that it sorts last.
"""

from typing import NamedTuple, assert_never

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

from bertc.ir.terms.masking import Count, OwnUnit
from bertc.learn.objectives.draws import LAST, below, lane_of, order_keys, smallest, unit
from bertc.learn.objectives.targets import VocabTensors
from bertc.learn.objectives.term import TextRows
from bertc.model.own import number_units

SPARE = 16  # words drawn beyond the budget, since long ones are skipped near its end
ROUNDS = 4  # of taking words up to the first that does not fit; more would change one row in 10,000


class Text(NamedTuple):
    """Masks of the tokens that exist, and of those that may be chosen."""

    ordinary: Bool[Tensor, "b s"]  # neither special nor padding
    allowed: Bool[Tensor, "b s"]  # a candidate for prediction


class Words(NamedTuple):
    """The words of each row, numbered from 1; a special or padding token is a word by itself."""

    number: Int[Tensor, "b s"]  # the word number of each token
    begin: Int[Tensor, "b s+2"]  # start position by word number; s after the last word
    heads: Bool[Tensor, "b s"]  # the first token of a word that may be chosen


def look_up(table_v: Shaped[Tensor, "v"], ids_bs: Int[Tensor, "b s"]) -> Shaped[Tensor, "b s"]:
    """Entries (b, s) of a table (v,); faster than indexing by a matrix on CPUs."""
    return table_v.index_select(0, ids_bs.reshape(-1)).view(ids_bs.shape)


def find_text(
    token_ids_bs: Int[Tensor, "b s"], real_bs: Bool[Tensor, "b s"], vocab: VocabTensors
) -> Text:
    """Masks of candidate tokens, which are the ordinary ones."""
    ordinary_bs = real_bs > look_up(vocab.special, token_ids_bs)
    return Text(ordinary_bs, ordinary_bs)


def last_alone(text: Text, predictions: int) -> Int[Tensor, "b k"]:
    """Positions (b, k) of which the first is the last ordinary token of its row."""
    seq = text.ordinary.shape[1]
    places_s = torch.arange(seq, device=text.ordinary.device)
    last_b1 = torch.where(text.ordinary, places_s, -1).amax(1, keepdim=True)
    return F.pad(torch.where(last_b1 < 0, seq, last_b1), (0, predictions - 1), value=seq)


def find_words(token_ids_bs: Int[Tensor, "b s"], text: Text, vocab: VocabTensors) -> Words:
    """Number the words."""
    return _number(look_up(vocab.word_start, token_ids_bs), text)


def find_units(unit: OwnUnit, rows: TextRows, text: Text, words: Words) -> Words:
    """Number the units of a user's class as words; they never cross special tokens."""
    begins_bs = F.pad(words.number, (1, 0)).diff(dim=1) > 0
    known = {"tokens": rows.inputs.token_ids, "words": begins_bs, "real": rows.real}
    numbers_bs = number_units(unit, known, rows.vocab.size, rows.vocab.token)
    other_bs = F.pad(numbers_bs.diff(dim=1) != 0, (1, 0))
    return _number(other_bs, text._replace(allowed=text.allowed & (numbers_bs >= 0)))


def _number(begins_bs: Bool[Tensor, "b s"], text: Text) -> Words:
    """Number words by their first tokens; a token after a special one always begins a word."""
    apart_bs = ~text.ordinary
    begins_bs = begins_bs | apart_bs | F.pad(apart_bs[:, :-1], (1, 0), value=True)
    b, seq = begins_bs.shape
    number_bs = begins_bs.cumsum(1)
    lane_bs = torch.arange(seq, device=begins_bs.device).expand(b, seq)
    begin = torch.full((b, seq + 2), seq, device=begins_bs.device)
    # Entry 0 collects the tokens that begin no word, and is never read. scatter_ would sort under
    # deterministic=yes.
    begin.scatter_reduce_(1, torch.where(begins_bs, number_bs, 0), lane_bs, "amin")
    return Words(number_bs, begin, begins_bs & text.allowed)


def next_stop(text: Text) -> Int[Tensor, "b s"]:
    """The next position at or after each that may not be chosen (b, s); s if there is none."""
    seq = text.allowed.shape[1]
    lane_s = torch.arange(seq, device=text.allowed.device)
    stops_bs = torch.where(text.allowed, seq, lane_s)
    return stops_bs.flip(1).cummin(1).values.flip(1)


def first_words(
    words: Words, bits_bs: Int[Tensor, "b s"], count: int
) -> tuple[Bool[Tensor, "b m"], Int[Tensor, "b m"], Int[Tensor, "b m"]]:
    """Up to ``count`` words of each row in random order: valid, head position, number.

    All are (b, m); an invalid entry has head 0 and the number of position 0.
    """
    seq = bits_bs.shape[1]
    keys_bm = smallest(order_keys(bits_bs, words.heads), min(count, seq))
    real_bm = keys_bm != LAST
    head_bm = torch.where(real_bm, lane_of(keys_bm, seq), 0)
    return real_bm, head_bm, words.number.gather(1, head_bm)


def choose_words(
    words: Words, bits_bs: Int[Tensor, "b s"], counts_b: Int[Tensor, "b"], predictions: int
) -> Bool[Tensor, "b s"]:
    """Whole words in random order up to the budget, as a mask (b, s) over their tokens.

    A word longer than the remaining budget is skipped, not cut (BERT, create_pretraining_data.py).
    """
    real_bm, head_bm, number_bm = first_words(words, bits_bs, predictions + SPARE)
    length_bm = words.begin.gather(1, number_bm + 1) - head_bm
    open_bm, left_b = real_bm, counts_b[:, None]
    taken_bm = torch.zeros_like(real_bm)
    for _ in range(ROUNDS):
        fits_bm = open_bm & (length_bm <= left_b)
        used_bm = torch.where(fits_bm, length_bm, 0).cumsum(1)
        now_bm = fits_bm & (used_bm <= left_b)
        left_b = left_b - torch.where(now_bm, length_bm, 0).sum(1, keepdim=True)
        taken_bm = taken_bm | now_bm
        open_bm = fits_bm & ~now_bm
    marks = torch.zeros_like(words.begin, dtype=torch.bool)
    marks.scatter_(1, torch.where(taken_bm, number_bm, 0), True)
    return marks.gather(1, words.number)


def counts(
    how: Count,
    share: float,
    lengths_b: Int[Tensor, "b"],
    text: Text,
    bits_b: Int[Tensor, "b"],
    most: int,
) -> Int[Tensor, "b"]:
    """Number of tokens to predict in each row (b,), at most ``most``.

    Products are in fp64, so that they round as the official Python code does: nearest is BERT's
    round-half-even over all tokens and at least 1 (create_pretraining_data.py), up SpanBERT's
    ceil over what may be chosen (masking.py), stochastic fairseq's int(x + u) over all tokens
    (mask_tokens_dataset.py).
    """
    match how:
        case "nearest":
            wanted_b = (lengths_b.double() * share).round().clamp(min=1)
        case "up":
            wanted_b = (text.allowed.sum(1).double() * share).ceil()
        case "stochastic":
            wanted_b = lengths_b.double() * share + unit(bits_b)
        case _:
            assert_never(how)
    return wanted_b.clamp(max=most).long()


def lowest(
    keys_bs: Int[Tensor, "b s"], counts_b: Int[Tensor, "b"], predictions: int
) -> Int[Tensor, "b {predictions}"]:
    """Positions (b, k) of the ``counts_b`` lowest keys of each row; ``LAST`` is never chosen."""
    seq = keys_bs.shape[1]
    first_bk = smallest(keys_bs, predictions)
    slot_k = torch.arange(predictions, device=keys_bs.device)
    taken_bk = (slot_k < counts_b[:, None]) & (first_bk != LAST)
    return smallest(torch.where(taken_bk, lane_of(first_bk, seq), seq), predictions)


def drawn_again(
    text: Text, bits_bk: Int[Tensor, "b k"], counts_b: Int[Tensor, "b"]
) -> Int[Tensor, "b k"]:
    """Allowed positions (b, k) drawn with replacement (ELECTRA, pretrain_helpers.py mask)."""
    seq, slot_k = text.allowed.shape[1], torch.arange(bits_bk.shape[1], device=bits_bk.device)
    rank_bs = text.allowed.cumsum(1)
    drawn_bk = below(bits_bk, rank_bs[:, -1:]) + 1
    # Without a candidate the search ends beyond the row.
    positions_bk = torch.searchsorted(rank_bs, drawn_bk)
    return torch.where(slot_k < counts_b[:, None], positions_bk, seq).sort(1).values


def marked(chosen_bs: Bool[Tensor, "b s"], predictions: int) -> Int[Tensor, "b {predictions}"]:
    """Positions (b, k) of the True entries of each row, at most k of them."""
    b, seq = chosen_bs.shape
    slot_bs = torch.where(chosen_bs, chosen_bs.cumsum(1), 0)
    lane_bs = torch.arange(seq, device=chosen_bs.device).expand(b, seq)
    # Slot 0 collects the unmarked positions and is dropped.
    positions = torch.full((b, predictions + 1), seq, device=chosen_bs.device)
    return positions.scatter_reduce_(1, slot_bs, lane_bs, "amin")[:, 1:]


def runs(
    positions_bk: Int[Tensor, "b k"], used_bk: Bool[Tensor, "b k"]
) -> tuple[Int[Tensor, "b k"], Int[Tensor, "b k"]]:
    """For each slot, the slots (b, k) of the first and last prediction of its contiguous run."""
    predictions = positions_bk.shape[1]
    slot_k = torch.arange(predictions, device=positions_bk.device)
    joined = (positions_bk.diff(dim=1) == 1) & used_bk[:, 1:]
    opens_bk = F.pad(~joined, (1, 0), value=True)
    closes_bk = F.pad(~joined, (0, 1), value=True)
    first_bk = torch.where(opens_bk, slot_k, 0).cummax(1).values
    last_bk = torch.where(closes_bk, slot_k, predictions - 1)
    return first_bk, last_bk.flip(1).cummin(1).values.flip(1)
