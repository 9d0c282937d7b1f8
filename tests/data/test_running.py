"""Text as it runs on: what a row reads, step after step."""

from types import SimpleNamespace

import numpy as np
import pytest

from bertc.data.batches.running import RunningData
from bertc.data.rows.tokens import Tokens

VOCABULARY = SimpleNamespace(pad=0)


def of(begin, end):
    return Tokens(np.arange(begin, end), np.empty(0), np.empty(0))


def running(*sizes, batch=4, seq=8, weights=None, heldout=50):
    """Texts whose tokens are numbers of their own, counted on from source to source."""
    ends = np.cumsum(sizes)
    texts = tuple(of(end - size, end) for end, size in zip(ends, sizes, strict=True))
    texts = tuple((text,) for text in texts)
    weights = weights or (1.0,) * len(sizes)
    languages = (0,) * len(sizes)
    return RunningData(VOCABULARY, batch, seq, texts, ((of(0, heldout),),), languages, weights)


def read(data, steps):
    return np.concatenate([data.train(step).token_ids for step in range(steps)], axis=None)


def test_a_pass_reads_every_token_once_and_what_does_not_fill_a_batch_too():
    for sizes in ((320,), (100, 200, 20)):
        assert sorted(read(running(*sizes), 10)) == list(range(320))
    assert set(read(running(333), 11)) == set(range(333))
    counts = np.bincount(read(running(333), 333))
    assert counts.max() - counts.min() <= 1


def test_a_row_goes_on_where_it_ended():
    data = running(333, seq=7)
    for step in range(120):
        now, later = data.train(step), data.train(step + 1)
        assert (now.following == later.token_ids[:, 0]).all()
        assert (np.diff(now.token_ids, axis=1) % 333 == 1).all()


def test_any_step_and_any_rows_are_at_hand():
    data = running(100, 233, weights=(1.0, 0.5))
    together = data.train(1000, slice(1, 3), steps=3)
    alone = [data.train(1000 + k, slice(1, 3)) for k in range(3)]
    for name in ("token_ids", "following", "example_ids", "copies"):
        parts = [getattr(batch, name) for batch in alone]
        assert (np.concatenate(parts) == getattr(together, name)).all()
    assert (together.token_ids[:2] == data.train(1000).token_ids[1:3]).all()


def test_a_source_of_less_weight_goes_on_in_the_next_pass():
    data = running(64, 64, batch=1, weights=(1.0, 0.5))
    assert data.tokens == 96
    counts = np.bincount(read(data, 24))
    assert (counts[:64] == 2).all()
    assert (counts[64:] == 1).all()


@pytest.mark.parametrize(("heldout", "batch"), [(50, 3), (49, 4), (5, 4), (3, 7), (200, 1)])
def test_every_held_out_token_but_the_first_is_told_once(heldout, batch):
    data = running(333, heldout=heldout)
    told = []
    for rows in data.heldout(batch, 10_000):
        after = np.concatenate([rows.token_ids[:, 1:], rows.following[:, None]], axis=1)
        for row, length in zip(after, rows.lengths, strict=True):
            told += row[:length].tolist()
    assert sorted(told) == list(range(1, heldout))
    for examples in (1, batch + 1, 10_000):
        rows = sum(len(each.lengths) for each in data.heldout(batch, examples))
        assert data.heldout_rows(batch, examples) == rows
