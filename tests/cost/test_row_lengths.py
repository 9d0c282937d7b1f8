"""What estimates read from files: lengths of a task's examples; size of text, passes, copies."""

import random
from collections import OrderedDict
from unittest.mock import Mock

import pytest

import bertc
from bertc.base.storage.place import FolderAt
from bertc.check.facts.texts import TextFacts, download_size, row_lengths
from bertc.cost import as_table, estimate
from bertc.tasks.examples import task_sets
from bertc.text.prepared.opening import PreparedPart, write_corpus
from bertc.text.prepared.plan import PreparationPlan
from tests.hub.programs import bert_folder


@pytest.fixture
def farm(tmp_path):
    """The start of a spec with a vocabulary, and examples of 5, 7, 9 and 20 tokens."""
    bert_folder(tmp_path, ("hen", "pond"))
    texts = (" ".join(["hen"] * (length - 2)) for length in (5, 7, 9, 20))
    rows = "".join(f"{text}\t{number % 2}\n" for number, text in enumerate(texts))
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + rows)
    (tmp_path / "pairs.tsv").write_text("text\tpair\tlabel\n" + "hen\tpond\ta\nhen\tpond\tb\n" * 8)
    return f"layers=2 hidden=32 heads=2 batch=4 steps=10 vocab='{tmp_path}/vocab.txt' "


@pytest.fixture
def spec(farm, tmp_path):
    """A task that learns from the examples."""
    return f"{farm} task=classify('{tmp_path}/train.tsv')"


def test_flops_and_time_are_of_the_mean_row(spec):
    found, full = bertc.estimate(f"{spec} seq=24"), estimate(bertc.resolve(f"{spec} seq=24"))
    short = estimate(bertc.resolve(f"{spec} seq=11"))  # (5 + 7 + 9 + 20) / 4 and a bit
    assert found.stages[0].row_tokens == 11
    assert found.stages[0].seq == full.stages[0].seq == 24
    assert found.flops == short.flops
    assert found.flops.train_total < full.flops.train_total
    assert found.memory == full.memory, "a batch may be of long rows alone"
    assert "rows of 11 tokens on average, of at most 24" in as_table([found])
    assert "on average" not in as_table([full])


def test_rows_count_as_they_are_read_and_tasks_as_they_are_drawn(farm, spec, tmp_path):
    one, other = (f"classify('{tmp_path}/{name}.tsv', name={name}" for name in ("train", "pairs"))
    several = f"{farm} seq=24 task={one}) + {other}, pair=pair) smoothing="
    for text, mean in (
        (f"{spec} seq=8", 7),  # those that are cut
        (f"{several}1", 7),  # of 4 and 16 examples, of 10.25 and 5 tokens
        (f"{several}0", 8),
        (f"{farm} seq=24 task=classify('nowhere.tsv', labels=[a, b], examples=40)", 24),
    ):
        assert row_lengths([bertc.resolve(text)]) == [(mean,)]


def test_without_a_vocabulary_rows_are_full(spec, tmp_path, call):
    known = f"{spec} seq=24"
    unknown = known.replace(f"'{tmp_path}/vocab.txt'", "100")
    assert row_lengths([bertc.resolve(unknown)]) == [(24,)]
    assert "Rows of a task are counted as full" in " ".join(call("estimate", unknown)[1].split())
    assert "counted as full" not in call("estimate", known)[1]


def test_a_grid_reads_its_examples_once(spec, monkeypatch):
    read = Mock(wraps=task_sets.mean_length)
    monkeypatch.setattr(task_sets, "mean_length", read)
    found = row_lengths([bertc.resolve(f"{spec} seq=24 seed={seed}") for seed in range(5)])
    assert found == [(11,)] * 5
    read.assert_called_once()


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
    assert download_size(text, 0.4) == 200
    assert download_size(text, 11) / 500 == pytest.approx(copied(11, cache), rel=0.02)


def test_sizes_and_passes_follow_from_files_and_weights(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("word " * 9200)
    a, b = (f'files("{tmp_path}/{name}.txt")' for name in "ab")
    data = bertc.estimate(f"{SPEC} data={a}*3+{b}").data
    assert (data.text_bytes, data.tokens, data.tokens_read) == (92_000, 20_000, 20_000)
    assert data.passes == pytest.approx(1.5)
    assert 2 * 20_000 < data.prepared_bytes < 2.5 * 20_000
    assert data.download_bytes == 0 < data.prepare_seconds
    assert bertc.estimate(f"{SPEC} data={a}+docstrings()").data is None
    table = str(bertc.estimate(f"{SPEC.replace('=20', '=20k')} data={a}"))
    assert table.count("about") == 4  # tokens, passes, prepared bytes, time
    assert "about 2,000, those after 40 teach next to nothing" in table
    assert bertc.estimate(f'{SPEC} data="no such file.txt"').data is None


def test_prepared_text_is_known_by_its_manifest():
    counts = {"tokens": 5000, "sentences": 100, "documents": 1}
    part = PreparedPart("00000", "", {"train": counts, "heldout": counts})
    plan = PreparationPlan("", "", "uint16", 3, 0.01, {"bytes": 23_000}, ("00000",))
    write_corpus(FolderAt("memory://known"), plan, [part], part)
    found = bertc.estimate(f'{SPEC} data=prepared("memory://known", cache=1)', devices=2)
    data = found.data
    assert (data.tokens, data.passes, data.prepared_bytes) == (5000, 4, 10_800)
    assert (data.download_bytes, data.prepare_seconds) == (10_800, 0)
    assert data.over_cache_bytes == 21_616  # its parts stay, held-out text included
    assert "two windows, over cache" in str(found)
    roomy = bertc.estimate(f'{SPEC} data=prepared("memory://known", cache=22k)')
    assert "over cache" not in str(roomy)
    assert "about" not in str(found)
    assert "download, a machine" in str(found)
