"""Text in parts, and by several processes: the same documents in the same order."""

import json
import math
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bertc.base.diagnostics import DataError, MachineError
from bertc.ir.data import Docstrings, Files
from bertc.tasks.corpus import prepare
from bertc.text import shards
from bertc.text.batches import arranged
from bertc.text.batches.order import permute, ranges_to, windowed
from bertc.text.batches.stage import ShardedRows, SourceRows, StageData
from bertc.text.cache.store import Silent
from bertc.text.cache.workers import JOBS_AHEAD, processes, spread
from bertc.text.sources import files, opening
from bertc.text.sources.opening import open_source

from .conftest import document, documents, resolved


def write(path: Path, count: int) -> None:
    texts = [document(number, 1 + number % 30) for number in range(count)]
    match path.suffix:
        case ".jsonl":
            path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        case ".txt":
            path.write_text("\n\n".join(text.replace(". ", ".\n") for text in texts) + "\n")
        case _:
            import pyarrow
            from pyarrow import parquet

            parquet.write_table(pyarrow.table({"text": texts}), path, row_group_size=7)


@pytest.mark.parametrize("part_bytes", [3000, 20_000, 45_000])
@pytest.mark.parametrize("ending", ["jsonl", "txt", "parquet"])
def test_parts_hold_each_document_once_and_in_order(tmp_path, monkeypatch, ending, part_bytes):
    for name, count in (("a", 40), ("b", 3), ("c", 60)):
        write(tmp_path / f"{name}.{ending}", count)
    corpus = Files(path=str(tmp_path / f"*.{ending}"), sentences="lines")
    whole = documents(open_source(corpus).read())
    monkeypatch.setattr(files, "PART_BYTES", part_bytes)
    parts = open_source(corpus).parts
    assert len(parts) > 1
    assert len(whole) == 103
    assert [text for part in parts for text in documents(part.read())] == whole
    assert len({json.dumps(part.identity) for part in parts}) == len(parts)


def test_a_mistake_in_a_part_says_from_where_lines_count(tmp_path, monkeypatch):
    write(tmp_path / "a.jsonl", 60)
    with (tmp_path / "a.jsonl").open("a") as file:
        file.write("no JSON\n")
    monkeypatch.setattr(files, "PART_BYTES", 20_000)
    parts = open_source(Files(path=str(tmp_path / "a.jsonl"))).parts
    pytest.raises(DataError, documents, parts[-1].read()).match(
        r"lines are counted from byte [\d,]+ on"
    )


FORMATS = ("full-sentences", "doc-sentences", "segment-pair", "blocks", "stream", "stream-pair")


@pytest.mark.parametrize("form", FORMATS)
def test_rows_of_many_parts_are_read_once_and_any_step_at_once(tmp_path, monkeypatch, form):
    write(tmp_path / "a.jsonl", 60)
    monkeypatch.setattr(files, "PART_BYTES", 4000)
    monkeypatch.setattr(arranged, "WINDOW", 3)
    objective = {"stream": "clm", "stream-pair": "plm segments=0"}.get(form, "mlm")
    data = f'data=files("{tmp_path}/a.jsonl") holdout=10% format={form} objective={objective}'
    program = resolved(data, "vocab=wordpiece(300) seq=48 batch=4 steps=40 pack=false")
    corpus = prepare(program, tmp_path / "cache", Silent())
    batches = corpus.stages[0]
    steps = [batches.train(step) for step in range(batches.examples // 4 + 1)]
    assert np.array_equal(batches.train(7).token_ids, steps[7].token_ids)
    if form not in ("stream", "stream-pair"):
        ids = np.concatenate([batch.example_ids for batch in steps])[: batches.examples]
        assert len(set(ids.tolist())) == batches.examples
    assert sum(len(batch.token_ids) for batch in batches.heldout(range(1, 3), 6))
    facts = corpus.texts[0].facts
    assert facts["train"]["documents"] + facts["heldout"]["documents"] == 60
    assert facts["train"]["tokens"] == pytest.approx(corpus.texts[0].counts.sum(), rel=0.01)


@pytest.mark.parametrize("mixing", ["rows", "batches"])
def test_a_mixture_of_many_shards_reads_few_windows_at_a_time(mixing: str) -> None:
    """Each batch of a mixture would else have rows of all shards, and read all of them."""
    sources = tuple(
        SourceRows((ShardedRows(np.full(shards, 60_000), opened=lambda _: ...),), (number, 0))
        for number, shards in enumerate((300, 100))
    )
    stage = StageData(None, 1, 32, 64, sources, (), (0.7, 0.3), 0, mixing=mixing)  # type: ignore
    places = stage._places(np.arange(3_000 * 32))
    for number, source in enumerate(sources):
        rows = places.rows[places.sources == number]
        shards, _ = ranges_to(source.copies[0].ends, rows)
        assert len(np.unique(shards)) == 16
        assert len(np.unique(rows)) == len(rows)
        share = (300 * 0.7, 100 * 0.3)[number] / 240
        assert len(rows) / (3_000 * 32) == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("window", [1, 3, 5])
def test_shards_are_read_a_window_at_a_time(window: int) -> None:
    sizes = np.array([5, 0, 9, 1, 30, 7, 7, 2])
    total = int(sizes.sum())
    rows = windowed(np.arange(total), sizes, window, 3, "x")
    assert sorted(rows.tolist()) == list(range(total))
    shards = np.searchsorted(np.cumsum(sizes), rows, side="right")
    begun = np.unique(shards, return_index=True)[1]
    ended = [int(np.flatnonzero(shards == shard)[-1]) for shard in np.unique(shards)]
    assert max([sum(begun <= at) - sum(end < at for end in ended) for at in range(total)]) <= window
    some = np.array([3, 40, 11])
    assert np.array_equal(windowed(some, sizes, window, 3, "x"), rows[some])
    assert np.array_equal(windowed(some, sizes, 8, 3, "x"), permute(some, total, 3, "x"))


def test_answers_come_in_order_and_jobs_are_read_as_needed() -> None:
    asked = []

    def jobs() -> Iterator[tuple[str, int]]:
        for number in range(40):
            asked.append(number)
            yield f"note {number}", number

    answers = spread(math.factorial, jobs(), 2)
    assert next(answers) == ("note 0", 1)
    assert len(asked) <= 2 * JOBS_AHEAD + 1
    assert list(answers) == [(f"note {n}", math.factorial(n)) for n in range(1, 40)]
    assert list(spread(math.factorial, [("here", 5)], 1)) == [("here", 120)]
    assert processes(100, 1000) == 1 <= processes(10**12, 1000) <= 16


def test_ends_of_processes_are_noticed_and_signals_to_all_are_left_to_the_first(capfd):
    for jobs in (1, 8):
        with pytest.raises(MachineError, match="ended by SIGKILL"):
            list(spread(signal.raise_signal, [("", signal.SIGKILL)] * jobs, 2))
    assert len(list(spread(signal.raise_signal, [("", s) for s in (2, 15, 2, 15)], 2))) == 4
    pytest.raises(RuntimeError, list, spread(math.sqrt, [("", -1.0)], 2)).match("exit code 1")
    assert "math domain error" in capfd.readouterr().err


def test_tokens_do_not_depend_on_the_number_of_processes(made, farm, tmp_path, monkeypatch):
    vocabulary = made("vocab=bpe(400) objective=mlm seq=64 batch=4").vocabulary
    monkeypatch.setattr(shards, "BATCH_CHARACTERS", 2000)
    contents = []
    for number in (1, 2):
        monkeypatch.setattr(shards, "processes", lambda *_, many=number: many)
        folder = tmp_path / str(number)
        folder.mkdir()
        source = open_source(Files(path=str(farm)))
        facts = shards.tokenise(folder, source, vocabulary, 0.2, Silent())
        contents.append((facts, {path.name: path.read_bytes() for path in folder.iterdir()}))
    assert contents[0] == contents[1]


def test_docstrings_do_not_depend_on_the_number_of_processes(monkeypatch):
    read = []
    for number in (1, 2):
        monkeypatch.setattr(opening, "processes", lambda *_, many=number: many)
        read.append(list(open_source(Docstrings(packages=("json", "email"))).read()))
    assert read[0] == read[1]
    assert any(piece.text for piece in read[0])
