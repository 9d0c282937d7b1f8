"""Batches are a function of seed and step; rows of running text: what stands where, read when."""

from types import SimpleNamespace

import numpy as np
import pytest

from bertc.text.batches.batch import best_fit
from bertc.text.batches.order import permute
from bertc.text.batches.running import RunningData, endless
from bertc.text.batches.stream_pairs import Lanes, StreamPairs, cut_segments
from bertc.text.rows.tokens import Tokens
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
            assert ((row == vocabulary.pad) == (np.arange(32) >= length)).all()
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
    sources = np.concatenate([stage.train(step).example_ids for step in range(400)]) >> 54
    rows = [len(source.copies[0]) for source in stage.train_sources]
    expected = 4 * rows[0] / (4 * rows[0] + rows[1])
    assert abs((sources == 0).mean() - expected) < 0.02


def test_heldout_rows_are_whole_batches_and_no_training_text(made: Make) -> None:
    corpus = made(SETTINGS, "format=doc-sentences objective=mlm holdout=0.2")
    stage = corpus.stages[0]
    batches = list(stage.heldout(range(1, 6), 10**6))
    assert all(batch.token_ids.shape == (4, 32) for batch in batches)
    rows = len(stage.heldout_sources[0].copies[0]) // 8 * 8
    assert len(batches) == rows // 4 > 1
    for most, examples in ((4, 10**6), (5, 10**6), (12, 10**6), (1000, 10**6), (7, 6)):
        read = [*stage.heldout(range(1, most + 1), examples)]
        ids = [number for batch in read for number in batch.example_ids]
        assert len(ids) == len({*ids}) == stage.heldout_rows(range(1, most + 1), examples)
        assert len(ids) == min(rows, -(-examples // 8) * 8), "whatever the batch is"
    many = range(rows - 1, rows)  # processes, of which no number of rows fits
    assert stage.heldout_rows(many, 10**6) == rows - 1
    read = [stage.train(step) for step in range(stage.examples // 8 + 1)]
    decode = corpus.vocabulary.tokenizer.decode
    trained, seen = (
        {decode(row.tolist()).split()[0] for batch in part for row in batch.token_ids}
        for part in (read, batches)
    )
    assert min(len(trained), len(seen)) > len(trained & seen) == 0


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
    opened, which = packs.unpack(np.arange(len(packs)))
    assert sorted(opened.tolist()) == sorted(np.asarray(rows).tolist())
    assert np.bincount(which).max() <= stage.texts < 64 // 8
    assert stage.train(0).starts.shape == (8, stage.texts)
    assert len(packs) < len(rows)
    several = 0
    for batch in map(stage.train, range(3)):
        columns = batch.token_ids, batch.segment_ids, batch.lengths, batch.starts
        for row, segments, length, starts in zip(*columns, strict=True):
            used = starts[starts < 64]
            assert np.array_equal(starts, sorted(starts))
            assert used[0] == 0
            assert np.array_equal(np.flatnonzero(row == vocabulary.cls), used)
            assert (row[[*(used[1:] - 1), length - 1]] == vocabulary.sep).all()
            assert ((row == vocabulary.pad) == (np.arange(64) >= length)).all()
            assert not segments[used].any()
            several += len(used) > 1
    assert several >= 2


SEP, CLS = 10_001, 10_002
VOCABULARY = SimpleNamespace(pad=10_000, sep=SEP, cls=CLS)


def tokens(first, sizes):
    """Tokens that are numbers of their own, in sentences of these sizes."""
    ends = np.cumsum(sizes)
    bounds = np.concatenate([[0], ends])
    return Tokens(np.arange(first, first + ends[-1]), bounds, np.array([0, len(sizes)]))


def pairs(*sizes, batch=4, seq=23, reuse=8, both_ways=True, weights=None, seed=0):
    """Sources of so many sentences, of one to nine tokens."""
    draw, first, texts = np.random.default_rng(5), 0, []
    for size in sizes:
        texts.append((tokens(first, draw.integers(1, 10, size)),))
        first += len(texts[-1][0].ids)
    heldout = ((tokens(0, draw.integers(1, 10, 60)),),) * len(sizes)
    return StreamPairs(
        VOCABULARY, batch, seq, tuple(texts), heldout, (0,) * len(sizes),
        weights or (1.0,) * len(sizes), seed=seed, reuse=reuse, both_ways=both_ways,
    )  # fmt: skip


def segments(row):
    """The text that a row goes on from, and its two segments."""
    a, b = np.flatnonzero(row == SEP)
    return row[:8], row[8:a], row[a + 1 : b]


def test_rows_made_by_hand():
    # Sentences of 3, 4, 2, 6, 5, 4 tokens; the cuts are before 3, 7, 9, 15, 20, 24.
    stream = endless((tokens(0, [3, 4, 2, 6, 5, 4]),), (1.0,))

    def cut(place, backward, bits):
        lanes = Lanes(np.array([place]), np.array([backward]))
        found = cut_segments(stream, lanes, 9, np.array([bits], dtype=np.uint64))
        return [int(part[0]) for part in found]

    goes_on, elsewhere = 1 << 63, 0
    # From 4 on A may end before 7 or 9, and nine tokens end within the sentence that ends at 15.
    assert cut(4, False, [0, goes_on, 0]) == [3, 7, 0]  # 4 5 6 | 7 ... 12
    assert cut(4, False, [1, goes_on, 0]) == [5, 9, 0]  # 4 ... 8 | 9 ... 12
    # Six tokens from 16 on: whole sentences from 15 to 24, of which six are left.
    assert cut(4, False, [0, elsewhere, 16]) == [3, 15, 1]
    # Over the end of the text into its beginning: 21 ... 2 | 3 ... 6, and the longer is cut.
    assert cut(21, False, [1, goes_on, 0]) == [5, 27, 0]
    # Backward place p is token -1 - p, so 14 is at -15: 14 ... 9 | 8 ... 3, cut in turn.
    assert cut(-15, True, [0, goes_on, 0]) == [5, -9, 0]
    # Around 16 the sentences that hold four tokens backward, 16 ... 13: from 19 to 9.
    assert cut(-15, True, [1, elsewhere, 16]) == [5, -20, 1]


@pytest.mark.parametrize("both_ways", [False, True])
def test_a_row_is_full_and_its_segments_are_told_apart(both_ways):
    data, labels = pairs(400, both_ways=both_ways), []
    for step in range(40):
        rows = data.train(step)
        assert (rows.lengths == 23).all()
        assert (rows.following == -1).all()
        assert (rows.backward == np.arange(4) % 2 * both_ways).all()
        for number, row in enumerate(rows.token_ids):
            ahead = -1 if rows.backward[number] else 1
            read, a, b = segments(row)
            assert len(a) >= 1 <= len(b)
            assert len(a) + len(b) == 12
            for part in (np.concatenate([read, a]), b):
                assert (np.diff(part) * ahead % data.tokens == 1).all()
            expected = [0] * (8 + len(a) + 1) + [1] * (len(b) + 1) + [2]
            assert rows.segment_ids[number].tolist() == expected
            assert row[-1] == CLS
            labels.append(rows.pair_labels[number, 0])
            if not labels[-1] and len(a) < 6:  # a longer A may have been cut
                assert (b[0] - a[-1]) * ahead % data.tokens == 1
    assert 0.4 < np.mean(labels) < 0.6


@pytest.mark.parametrize("both_ways", [False, True])
def test_every_token_is_read_in_order_with_the_stride(both_ways):
    data = pairs(300, both_ways=both_ways)
    lanes = [[] for _ in range(4)]
    steps = -(-data.tokens // ((2 if both_ways else 4) * 8)) + 1
    for step in range(steps):
        for lane, row in zip(lanes, data.train(step).token_ids, strict=True):
            lane += row[:8].tolist()
    for lane, ahead in zip(lanes, [1, -1, 1, -1] if both_ways else [1] * 4, strict=True):
        assert (np.diff(lane) * ahead % data.tokens == 1).all()
    for way in (lanes[::2], lanes[1::2]) if both_ways else (lanes,):
        assert set(np.concatenate(way)) == set(range(data.tokens))


def test_what_is_segment_a_is_read_next():
    data = pairs(300)
    for step in range(20):
        now, later = (data.train(k).token_ids for k in (step, step + 1))
        for row, after in zip(now, later, strict=True):
            a = segments(row)[1][:8]
            assert (after[: len(a)] == a).all()


def test_another_seed_draws_other_segments():
    again, other = pairs(300).train(7), pairs(300, seed=1).train(7)
    assert (again.token_ids == pairs(300).train(7).token_ids).all()
    assert (again.token_ids[:, :8] == other.token_ids[:, :8]).all()
    assert (again.token_ids != other.token_ids).any()


def test_addresses_of_both_ways_differ_and_a_text_shorter_than_a_row_is_repeated():
    data = pairs(60)
    seen = set()
    for step in range(data.tokens // 16):
        rows = data.train(step)
        seen |= set(zip(rows.example_ids.tolist(), rows.copies.tolist(), strict=True))
    assert len(seen) == data.tokens // 16 * 4
    short = pairs(1)
    assert set(short.train(0).token_ids[0].tolist()) - {SEP, CLS} == set(range(short.tokens))


def assert_held_out_rows_are_counted(data, sizes):
    for examples in (1, sizes[-1] + 1, 10_000):
        rows = sum(len(each.lengths) for each in data.heldout(sizes, examples))
        assert data.heldout_rows(sizes, examples) == rows


@pytest.mark.parametrize(("batch", "both_ways"), [(3, True), (4, True), (1, True), (5, False)])
def test_held_out_text_is_read_by_every_way(batch, both_ways):
    data = pairs(100, both_ways=both_ways)
    total = len(data.heldout_texts[0][0].ids)
    read = {0: set(), 1: set()}
    for rows in data.heldout(range(1, batch + 1), 10_000):
        assert rows.token_ids.shape == (batch, 23)
        for row, way in zip(rows.token_ids, rows.backward, strict=True):
            read[int(way)] |= set(row[:8].tolist())
    assert read[0] == set(range(total))
    # Of three rows one reads backward, half as far as the two that read forward.
    assert len(read[1]) >= {4: total, 3: total // 2}.get(batch, 0)
    assert bool(read[1]) == (batch in (3, 4))
    assert len(list(data.heldout(range(1, batch + 1), 1))) == 1
    assert_held_out_rows_are_counted(data, range(1, batch + 1))


def of(begin, end):
    return Tokens(np.arange(begin, end), np.empty(0), np.empty(0))


def running(*sizes, batch=4, seq=8, weights=None, heldout=50):
    """Texts whose tokens are numbers of their own, counted on from source to source."""
    ends = np.cumsum(sizes)
    texts = tuple(of(end - size, end) for end, size in zip(ends, sizes, strict=True))
    texts = tuple((text,) for text in texts)
    weights, languages = weights or (1.0,) * len(sizes), (0,) * len(sizes)
    vocabulary, left_out = SimpleNamespace(pad=0), ((of(0, heldout),),)
    return RunningData(vocabulary, batch, seq, texts, left_out, languages, weights)


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


@pytest.mark.parametrize("made", [pairs, running])
def test_any_step_and_any_rows_are_at_hand(made):
    data = made(100, 233, weights=(1.0, 0.5))
    together = data.train(1000, slice(1, 3), steps=3)
    alone = [data.train(1000 + k, slice(1, 3)) for k in range(3)]
    assert same(joined(*alone), together)
    assert (together.token_ids[:2] == data.train(1000).token_ids[1:3]).all()


def test_a_source_of_less_weight_goes_on_in_the_next_pass():
    data = running(64, 64, batch=1, weights=(1.0, 0.5))
    assert data.tokens == 96
    counts = np.bincount(read(data, 24))
    assert (counts[:64] == 2).all()
    assert (counts[64:] == 1).all()


@pytest.mark.parametrize(("heldout", "batch"), [(50, 3), (49, 4), (5, 4), (3, 7), (200, 1)])
def test_every_held_out_token_but_the_first_is_predicted_once(heldout, batch):
    data = running(333, heldout=heldout)
    expected = []
    for rows in data.heldout(range(1, batch + 1), 10_000):
        after = np.concatenate([rows.token_ids[:, 1:], rows.following[:, None]], axis=1)
        for row, length in zip(after, rows.lengths, strict=True):
            expected += row[:length].tolist()
    assert sorted(expected) == list(range(1, heldout))
    assert_held_out_rows_are_counted(data, range(1, batch + 1))
