"""The estimate of a task is of examples as long as those in its files."""

import pytest
from typer.testing import CliRunner

import bertc
from bertc.check.facts.examples import row_lengths
from bertc.cli.app import app
from bertc.cost import as_table, estimate
from bertc.data.examples import task_sets

SMALL = "layers=2 hidden=32 heads=2 batch=4 steps=10 "


@pytest.fixture
def farm(tmp_path):
    """A vocabulary, and examples of 5, 7, 9 and 20 tokens with the special ones."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hen", "pond"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    texts = (" ".join(["hen"] * (length - 2)) for length in (5, 7, 9, 20))
    rows = "".join(f"{text}\t{number % 2}\n" for number, text in enumerate(texts))
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + rows)
    (tmp_path / "pairs.tsv").write_text("text\tpair\tlabel\n" + "hen\tpond\ta\nhen\tpond\tb\n" * 8)
    return tmp_path


def test_flops_and_time_are_of_the_mean_row(farm):
    spec = f"{SMALL} vocab='{farm}/vocab.txt' task=classify('{farm}/train.tsv')"
    found, full = bertc.estimate(f"{spec} seq=24"), estimate(bertc.resolve(f"{spec} seq=24"))
    short = estimate(bertc.resolve(f"{spec} seq=11"))  # (5 + 7 + 9 + 20) / 4 and a bit
    assert found.stages[0].row_tokens == 11
    assert found.stages[0].seq == full.stages[0].seq == 24
    assert found.flops == short.flops
    assert found.flops.train_total < full.flops.train_total
    assert found.memory == full.memory, "a batch may be of long rows alone"
    assert "rows of 11 tokens on average, of at most 24" in as_table([found])
    assert "on average" not in as_table([full])


def test_rows_that_are_cut_count_as_they_are_read(farm):
    spec = f"{SMALL} vocab='{farm}/vocab.txt' task=classify('{farm}/train.tsv') seq=8"
    assert row_lengths([bertc.resolve(spec)]) == [(7,)]


def test_several_tasks_count_as_they_are_drawn(farm):
    one, other = (f"classify('{farm}/{name}.tsv', name={name}" for name in ("train", "pairs"))
    spec = f"{SMALL} vocab='{farm}/vocab.txt' seq=24 task={one}) + {other}, pair=pair) smoothing="
    # Of 4 and 16 examples, of 10.25 and 5 tokens.
    assert row_lengths([bertc.resolve(spec + "1")]) == [(7,)]
    assert row_lengths([bertc.resolve(spec + "0")]) == [(8,)]


def test_without_a_vocabulary_rows_are_full(farm):
    spec = f"{SMALL} vocab=100 seq=24 task=classify('{farm}/train.tsv')"
    assert row_lengths([bertc.resolve(spec)]) == [(24,)]
    told = " ".join(CliRunner().invoke(app, ["estimate", spec]).output.split())
    assert "Rows of a task are counted as full" in told
    known = spec.replace("vocab=100", f"vocab='{farm}/vocab.txt'")
    assert "counted as full" not in CliRunner().invoke(app, ["estimate", known]).output


def test_without_the_examples_rows_are_full(farm):
    task = "classify('nowhere.tsv', labels=[a, b], examples=40)"
    program = bertc.resolve(f"{SMALL} vocab='{farm}/vocab.txt' seq=24 task={task}")
    assert row_lengths([program]) == [(24,)]


def test_a_grid_reads_its_examples_once(farm, monkeypatch):
    spec = f"{SMALL} vocab='{farm}/vocab.txt' seq=24 task=classify('{farm}/train.tsv')"
    read, plain = [], task_sets.mean_length
    monkeypatch.setattr(task_sets, "mean_length", lambda *a: read.append(a) or plain(*a))
    found = row_lengths([bertc.resolve(f"{spec} seed={seed}") for seed in range(5)])
    assert found == [(11,)] * 5
    assert len(read) == 1
