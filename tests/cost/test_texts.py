"""What a look at text tells: its size, passes over it, and what a machine copies of it."""

import random
from collections import OrderedDict

import pytest

from bertc.api import estimate
from bertc.base.storage.place import FolderAt
from bertc.cost.texts import TextFacts, downloaded
from bertc.data.prepared.manifest import PreparationPlan, PreparedPart, write_corpus

SPEC = "vocab=wordpiece(300) layers=2 hidden=64 seq=100 batch=10 steps=20"


def copied(passes, cache, shards=500):
    """Shards that a cache of so many copies over all, if the one read longest ago goes first."""
    cached, draws, count = OrderedDict(), random.Random(0), 0
    for _ in range(passes):
        for shard in draws.sample(range(shards), shards):
            count += shard not in cached
            cached[shard] = None
            cached.move_to_end(shard)
            if len(cached) > cache:
                cached.popitem(last=False)
    return count / shards


@pytest.mark.parametrize("cache", [50, 250, 400, 500])
def test_a_cache_saves_what_one_of_shards_in_keyed_orders_does(cache):
    text = TextFacts("a", 0, 500, 0, 1, counted=True, remote=True, cache_bytes=cache)
    assert downloaded(text, 0.4) == 200
    assert downloaded(text, 11) / 500 == pytest.approx(copied(11, cache), rel=0.02)


def test_sizes_and_passes_follow_from_files_and_weights(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("word " * 9200)
    a, b = (f'files("{tmp_path}/{name}.txt")' for name in "ab")
    data = estimate(f"{SPEC} data={a}*3+{b}").data
    assert (data.text_bytes, data.tokens, data.tokens_read) == (92_000, 20_000, 20_000)
    assert data.passes == pytest.approx(1.5)
    assert 2 * 20_000 < data.prepared_bytes < 2.5 * 20_000
    assert data.download_bytes == 0 < data.prepare_seconds
    assert estimate(f"{SPEC} data={a}+docstrings()").data is None
    assert estimate(f'{SPEC} data="no such file.txt"').data is None


def test_tokens_of_others_are_known_by_their_index(tmp_path):
    (tmp_path / "a.ds").write_bytes(bytes(2 * 5000))
    (tmp_path / "a.ds.index").write_bytes((5000).to_bytes(8, "little"))
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    spec = SPEC.replace("wordpiece(300)", f'"{tmp_path}/vocab.txt"')
    data = estimate(f'{spec} data=datatrove("{tmp_path}")').data
    assert (data.tokens, data.passes, data.prepare_seconds) == (5000, 4, 0)


def test_prepared_text_is_known_by_its_manifest():
    counts = {"tokens": 5000, "sentences": 100, "documents": 1}
    part = PreparedPart("00000", "", {"train": counts, "heldout": counts})
    plan = PreparationPlan("", "", "uint16", 3, 0.01, {"bytes": 23_000}, ("00000",))
    write_corpus(FolderAt("memory://known"), plan, [part], part)
    found = estimate(f'{SPEC} data=prepared("memory://known", cache=1)', devices=2)
    data = found.data
    assert (data.tokens, data.passes, data.prepared_bytes) == (5000, 4, 10_800)
    assert (data.download_bytes, data.prepare_seconds) == (43_199, 0)
    assert "about" not in str(found)
    assert "download, a machine" in str(found)
