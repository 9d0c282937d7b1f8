"""Batches of XLNet's rows: a running text that is reused, then two segments.

Axes: b rows, s positions of a row, w places after one, n random numbers of a row. Places are
counted in the direction that a row reads in: backward, place p is that of the text's token -1 - p.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bertc.ir.address import key
from bertc.text.batches.batch import RawBatch, empty_batch
from bertc.text.batches.running import Endless, RunningRows, Texts, endless
from bertc.text.rows.index import overhangs

SPECIAL_TOKENS = 3
"""Special tokens of a row: a separator after each segment, and [CLS]."""
Segments = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]
"""Length of A, which continues the running text, place of B, and if B is random text."""


class Lanes(NamedTuple):
    """The start of each row of a batch, and its direction."""

    places: NDArray[np.int64]  # (b,)
    backward: NDArray[np.bool_]  # (b,)

    def of_tokens(self, places_bw: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions in the text of the tokens at places (b, w)."""
        return np.where(self.backward[:, None], -1 - places_bw, places_bw)

    def of_cuts(self, places_bw: NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions in the text of the cuts before places (b, w)."""
        return np.where(self.backward[:, None], -places_bw, places_bw)


@dataclass(eq=False, kw_only=True)
class StreamPairs(RunningRows):
    """Rows of ``reuse`` tokens and two segments; odd ones read in reverse if ``both_ways``."""

    seed: int
    reuse: int
    both_ways: bool

    @property
    def advance(self) -> int:
        """All but the tokens that the next row of the lane reads again."""
        return self.reuse

    def train(self, step: int, rows: slice | None = None, steps: int = 1) -> RawBatch:
        """The batch of ``steps`` steps from ``step`` on, or ``rows`` of each."""
        chosen, text = rows or slice(None), self.text
        first = self._lanes(text, self.batch)
        numbers = range(step, step + steps)
        places_b = np.concatenate([first.places[chosen] + k * self.reuse for k in numbers])
        lanes = Lanes(places_b, np.tile(first.backward[chosen], steps))
        bits_bn = [self._bits(self.batch, "train", k)[chosen] for k in numbers]
        batch = self._rows(text, lanes, np.concatenate(bits_bn))
        if self.static_copies:
            batch.copies[:] %= self.static_copies
        sources = text.sources(lanes.of_tokens(lanes.places[:, None])[:, 0])
        batch.languages[:] = self.languages_of_texts[sources][:, None]
        return batch

    def _batches_of(self, tokens: int, batch: int) -> int:
        lanes_each_way = -(-batch // 2) if self.both_ways else batch
        return -(-tokens // (lanes_each_way * self.reuse))

    def _read_out(self, texts: Texts, batch: int, language: int) -> Iterator[RawBatch]:
        text = endless(texts, (1.0,) * len(texts))
        lanes = self._lanes(text, batch)
        for k in range(self._batches_of(text.tokens, batch)):
            bits_bn = self._bits(batch, "heldout", language, k)
            yield self._rows(text, lanes._replace(places=lanes.places + k * self.reuse), bits_bn)

    def _lanes(self, text: Endless, batch: int) -> Lanes:
        """The rows of the first batch; those of one direction begin at equal distances."""
        directions = 2 if self.both_ways else 1
        number_b, direction_b = np.divmod(np.arange(batch), directions)
        rows_b = np.bincount(direction_b, minlength=directions)[direction_b]
        return Lanes(number_b * text.tokens // rows_b, direction_b == 1)

    def _bits(self, batch: int, *address: str | int) -> NDArray[np.uint64]:
        """Three random numbers (b, n) for each row, keyed by an address."""
        drawn = np.random.Philox(key=key(self.seed, "segments", *address)).random_raw(3 * batch)
        return np.asarray(drawn, dtype=np.uint64).reshape(batch, 3)

    def _rows(self, text: Endless, lanes: Lanes, bits_bn: NDArray[np.uint64]) -> RawBatch:
        reuse, seq = self.reuse, self.seq
        room = seq - reuse - SPECIAL_TOKENS
        begins = lanes._replace(places=lanes.places + reuse)
        a_b, place_b, elsewhere_b = cut_segments(text, begins, room, bits_bn)
        lane_s, middle_b1 = np.arange(seq), (reuse + a_b)[:, None]
        in_b_bs = lane_s > middle_b1
        second_bs = place_b[:, None] + lane_s - middle_b1 - 1
        places_bs = np.where(in_b_bs, second_bs, lanes.places[:, None] + lane_s)
        batch = empty_batch(len(a_b), seq, 1, self.vocabulary.pad)
        batch.token_ids[:] = text.read(lanes.of_tokens(places_bs))
        batch.token_ids[lane_s == middle_b1] = self.vocabulary.sep
        batch.token_ids[:, -2:] = self.vocabulary.sep, self.vocabulary.cls
        batch.segment_ids[:] = in_b_bs
        batch.segment_ids[:, -1] = 2
        batch.lengths[:], batch.starts[:], batch.pair_labels[:, 0] = seq, 0, elsewhere_b
        places_b = lanes.of_tokens(lanes.places[:, None])[:, 0]
        batch.copies[:], batch.example_ids[:] = np.divmod(places_b, text.tokens)
        batch.backward[:] = lanes.backward
        return batch


def cut_segments(text: Endless, lanes: Lanes, room: int, bits_bn: NDArray[np.uint64]) -> Segments:
    """Cut two segments of ``room`` tokens in all, A at each lane's place (XLNet, _split_a_and_b).

    A ends with a sentence, and B continues to the end of one. In half of the rows, and where A has
    no end of a sentence, B is a run of sentences from anywhere in the same source. The longer one
    is cut at its end.
    """
    cuts_bw = text.begins(lanes.of_cuts(lanes.places[:, None] + np.arange(1, 2 * room + 1)))
    cuts_bw[:, -1] = True  # longer sentences are cut
    end_b = room + cuts_bw[:, room - 1 :].argmax(1)
    inner_bw = cuts_bw[:, : room - 1]
    count_b = inner_bw.sum(1)
    chosen_b = bits_bn[:, 0] % np.maximum(count_b, 1).astype(np.uint64)
    a_b = (inner_bw.cumsum(1) <= chosen_b[:, None].astype(np.int64)).sum(1) + 1
    a_b = np.where(count_b > 0, a_b, end_b)
    elsewhere_b = (count_b == 0) | (bits_bn[:, 1] >> np.uint64(63) == 0)
    place_b, b_b = _anywhere(text, lanes, room, np.maximum(1, room - a_b), bits_bn[:, 2])
    place_b = np.where(elsewhere_b, place_b, lanes.places + a_b)
    b_b = np.where(elsewhere_b, b_b, end_b - a_b)
    return a_b - overhangs(a_b, b_b, room)[0], place_b, elsewhere_b


def _anywhere(
    text: Endless, lanes: Lanes, room: int, min_b: NDArray[np.int64], bits_b: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places and lengths (b,) of random runs of sentences with at least ``min_b`` tokens."""
    here_b = lanes.of_tokens(lanes.places[:, None])[:, 0]
    source_b = text.sources(here_b)
    begin_b = here_b // text.tokens * text.tokens + (text.ends - text.quotas)[source_b]
    drawn_b = begin_b + (bits_b % text.quotas[source_b].astype(np.uint64)).astype(np.int64)
    drawn_b = lanes.of_tokens(drawn_b[:, None])[:, 0]
    before_bw = text.begins(lanes.of_cuts(drawn_b[:, None] - np.arange(room + 1)))
    after_bw = text.begins(lanes.of_cuts((drawn_b + min_b)[:, None] + np.arange(room + 1)))
    # Sentences longer than a row are cut to a row.
    before_bw[:, -1] = after_bw[:, -1] = True
    first_b = drawn_b - before_bw.argmax(1)
    return first_b, drawn_b + min_b + after_bw.argmax(1) - first_b
