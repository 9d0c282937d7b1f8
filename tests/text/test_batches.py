"""Batches are a function of seed and step, whoever asks, in whatever order."""

import numpy as np
import pytest

from bertc.text.batches.batch import Packs, best_fit
from bertc.text.batches.order import permute
from tests.text.conftest import Make, joined, same

FORMATS = [
    "segment-pair", "sentence-pair", "full-sentences", "blocks", "doc-sentences", "single-segment",
]  # fmt: skip
OF_EXAMPLES = ["segment-pair", "sentence-pair", "doc-sentences", "single-segment"]
SETTINGS = "vocab=wordpiece(200) seq=32 batch=8"
PACKED = "vocab=wordpiece(200) seq=64 batch=8 pack=true"


@pytest.mark.parametrize("size", [1, 2, 3, 17, 64, 1000])
def test_permutation_is_one_to_one(size: int) -> None:
    order = permute(np.arange(size), size, 3, "order", 0)
    assert sorted(order) == list(range(size))
    assert np.array_equal(permute(np.arange(size)[::-1], size, 3, "order", 0), order[::-1])


def test_permutations_of_several_addresses_differ() -> None:
    one, other = (permute(np.arange(1000), 1000, 3, "order", epoch) for epoch in (0, 1))
    assert (one == other).mean() < 0.02
    assert abs(np.corrcoef(one, np.arange(1000))[0, 1]) < 0.1


@pytest.mark.parametrize("form", FORMATS)
def test_shape_of_rows(made: Make, form: str) -> None:
    corpus = made(SETTINGS, f"format={form} objective=mlm")
    vocabulary, stage = corpus.vocabulary, corpus.stages[0]
    for batch in map(stage.train, range(3)):
        assert batch.token_ids.shape == batch.segment_ids.shape == (8, 32)
        assert (batch.token_ids[:, 0] == vocabulary.cls).all()
        rows = zip(batch.token_ids, batch.segment_ids, batch.lengths, strict=True)
        for row, segments, length in rows:
            assert row[length - 1] == vocabulary.sep
            assert (row[length:] == vocabulary.pad).all()
            assert (row[:length] != vocabulary.pad).all()
            if form in ("full-sentences", "blocks"):
                assert length == 32 or form == "full-sentences"
                assert not segments.any()
            else:
                assert (row == vocabulary.sep).sum() == 1 + segments.any()
            if segments.any():
                first = int(np.flatnonzero(row == vocabulary.sep)[0])
                assert segments.tolist() == [int(first < i < length) for i in range(32)]


@pytest.mark.parametrize("form", [*FORMATS, "segment-pair pack=true"])
def test_any_order_any_slice(made: Make, form: str) -> None:
    settings = (SETTINGS, f"format={form} objective=mlm")
    forward = [made(*settings).stages[0].train(step) for step in range(40)]
    stage = made(*settings).stages[0]
    for step in (39, 0, 17, 17, 3):
        assert same(stage.train(step), forward[step])
    assert same(joined(stage.train(7, slice(0, 3)), stage.train(7, slice(3, None))), forward[7])
    assert stage.train(10**9).token_ids.shape == (8, 32)


def test_a_pass_reads_every_row_once(made: Make) -> None:
    stage = made(SETTINGS, "format=doc-sentences objective=mlm").stages[0]
    steps = 2 * stage.examples // 8 + 1
    ids = np.concatenate([stage.train(step).example_ids for step in range(steps)])
    copies = np.concatenate([stage.train(step).copies for step in range(steps)])
    for epoch in (0, 1):
        assert sorted(ids[copies == epoch]) == sorted(set(ids[: stage.examples]))
    assert not np.array_equal(ids[: stage.examples], ids[stage.examples : 2 * stage.examples])
    assert (np.diff(copies) >= 0).all()
    stage = made(SETTINGS, "format=doc-sentences objective=mlm(masking=static(2))").stages[0]
    assert {int(c) for s in range(2 * steps) for c in stage.train(s).copies} == {0, 1}


def test_weights_set_the_mixture(made: Make, farm: object) -> None:
    data = f'4*files("{farm}") + files("{farm}", sentences=lines)'
    stage = made(SETTINGS, "format=doc-sentences objective=mlm steps=400", data=data).stages[0]
    ids = np.concatenate([stage.train(step).example_ids for step in range(400)])
    sources = ids >> 54
    rows = [len(source.copies[0]) for source in stage.train_sources]
    expected = 4 * rows[0] / (4 * rows[0] + rows[1])
    assert abs((sources == 0).mean() - expected) < 0.02


def test_heldout_rows_are_whole_batches_and_no_training_text(made: Make) -> None:
    corpus = made(SETTINGS, "format=doc-sentences objective=mlm holdout=0.2")
    stage = corpus.stages[0]
    batches = list(stage.heldout(4, 10**6))
    assert all(batch.token_ids.shape == (4, 32) for batch in batches)
    rows = len(stage.heldout_sources[0].copies[0])
    assert len(batches) == rows // 4 > 1
    assert stage.heldout_rows(4, 10**6) == len(batches) * 4
    read = [stage.train(step) for step in range(stage.examples // 8 + 1)]
    trained, seen = (
        {
            corpus.vocabulary.tokenizer.decode(row.tolist()).split()[0]
            for batch in part
            for row in batch.token_ids
        }
        for part in (read, batches)
    )
    assert trained
    assert seen
    assert not trained & seen
    (batch,) = stage.heldout(1000, 10**6)
    assert len(set(batch.example_ids.tolist())) == rows < 1000


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


@pytest.mark.parametrize("form", OF_EXAMPLES)
def test_packing_moves_examples_and_changes_none(made: Make, form: str) -> None:
    corpus = made(PACKED, f"format={form} objective=mlm")
    vocabulary, stage = corpus.vocabulary, corpus.stages[0]
    plain = made(PACKED.replace("pack=true", ""), f"format={form} objective=mlm").stages[0]
    sources = stage.train_sources[0], plain.train_sources[0]
    packs, rows = (source.copies[0].opened(0)[1] for source in sources)
    assert isinstance(packs, Packs)
    opened, which = packs.unpack(np.arange(len(packs)))
    assert sorted(opened.tolist()) == sorted(np.asarray(rows).tolist())
    assert np.bincount(which).max() <= stage.texts
    assert len(packs) < len(rows)
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
    stage = made(PACKED, "format=sentence-pair objective=mlm").stages[0]
    packs = [rows.opened(0)[1] for source in stage.train_sources for rows in source.copies]
    assert all(isinstance(rows, Packs) for rows in packs)
    held = [len(rows.unpack(np.array([n]))[1]) for rows in packs for n in range(len(rows))]
    assert max(held) <= stage.texts < 64 // 8
    assert stage.train(0).starts.shape == (8, stage.texts)
