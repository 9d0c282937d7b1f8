"""Rows that hold several examples: nothing is lost, doubled or out of place."""

import numpy as np
import pytest

from bertc.data.batches.packs import Packs, best_fit
from tests.data.conftest import Make, joined, same

SETTINGS = "vocab=wordpiece(200) seq=64 batch=8 pack=true"
FORMATS = ["segment-pair", "sentence-pair", "doc-sentences", "single-segment"]


@pytest.mark.parametrize(("room", "most"), [(128, 16), (64, 3), (16, 16), (9, 1)])
def test_examples_fit_each_once(room: int, most: int) -> None:
    sizes = np.random.default_rng(room).integers(3, room + 1, 5000).tolist()
    packs = best_fit(sizes, room, most)
    assert sorted(i for pack in packs for i in pack) == list(range(5000))
    assert all(len(pack) <= most for pack in packs)
    assert max(sum(sizes[i] for i in pack) for pack in packs) <= room


def test_rows_of_natural_lengths_are_nearly_full() -> None:
    lengths = np.random.default_rng(0).lognormal(4, 0.8, 20_000).astype(int).clip(5, 256)
    packs = best_fit(lengths.tolist(), 256, 32)
    assert lengths.sum() / (256 * len(packs)) > 0.98


@pytest.mark.parametrize("form", FORMATS)
def test_shape_of_packed_rows(made: Make, form: str) -> None:
    corpus = made(SETTINGS, f"format={form} objective=mlm")
    vocabulary, stage = corpus.vocabulary, corpus.stage(0)
    several = 0
    for step in range(3):
        batch = stage.train(step)
        for row, segments, length, starts in zip(
            batch.token_ids, batch.segment_ids, batch.lengths, batch.starts, strict=True
        ):
            used = starts[starts < 64]
            assert np.array_equal(starts, sorted(starts))
            assert used[0] == 0
            assert np.array_equal(np.flatnonzero(row == vocabulary.cls), used)
            assert (row[[*(used[1:] - 1), length - 1]] == vocabulary.sep).all()
            assert (row[length:] == vocabulary.pad).all()
            assert (row[:length] != vocabulary.pad).all()
            assert not segments[used].any()
            several += len(used) > 1
    assert several >= 2


def test_rows_have_room_for_as_many_examples_as_the_fullest_holds(made: Make) -> None:
    stage = made(SETTINGS, "format=sentence-pair objective=mlm").stage(0)
    packs = [rows for source in stage.train_sources for rows in source.copies]
    assert all(isinstance(rows, Packs) for rows in packs)
    held = [len(rows.unpack(np.array([n]))[1]) for rows in packs for n in range(len(rows))]
    assert max(held) <= stage.texts < 64 // 8
    assert stage.train(0).starts.shape == (8, stage.texts)


@pytest.mark.parametrize("form", FORMATS)
def test_packing_moves_examples_and_changes_none(made: Make, form: str) -> None:
    settings = (SETTINGS, f"format={form} objective=mlm")
    packed = made(*settings).stage(0)
    plain = made(SETTINGS.replace("pack=true", ""), *settings[1:]).stage(0)
    packs, rows = packed.train_sources[0].copies[0], plain.train_sources[0].copies[0]
    assert isinstance(packs, Packs)
    opened, which = packs.unpack(np.arange(len(packs)))
    assert sorted(opened.tolist()) == sorted(np.asarray(rows).tolist())
    assert np.bincount(which).max() <= packed.texts
    assert len(packs) < len(rows)


def test_packed_rows_in_any_order_and_any_slice(made: Make) -> None:
    settings = (SETTINGS, "format=segment-pair objective=mlm+sop")
    forward = [made(*settings).stage(0).train(step) for step in range(20)]
    stage = made(*settings).stage(0)
    assert all(same(stage.train(step), forward[step]) for step in (19, 0, 7))
    assert same(joined(stage.train(7, slice(0, 3)), stage.train(7, slice(3, None))), forward[7])
