"""What is read of a run along its way: figures by step, tokens, seconds, FLOPs; its attempts."""

import shutil

import pytest

from bertc import estimate, resolve
from bertc.base.diagnostics import DataError
from bertc.ir.learning.objective import Mlm, Sop, Term
from bertc.lab.results.curves import curves
from bertc.lab.results.listing import list_runs
from bertc.run.records.folder import RunFolder
from bertc.run.train.loop import train


def test_curves_and_attempts_of_a_run_with_stages_that_was_resumed(tiny, tmp_path, cache):
    program = tiny(
        objective=(Term(objective=Mlm()), Term(objective=Sop(), weight=0.5)),
        stages={"one": {"steps": 6}, "two": {"steps": 6, "seq": 16}},
    )
    folder = tmp_path / "run"
    train(program, folder, cache=cache, quiet=True)
    shutil.rmtree(folder / "checkpoints" / "step-00000012")
    with open(folder / "attempts.jsonl", "a") as file:
        file.write('{"step": 0, "ti')
    train(program, folder, cache=cache, quiet=True, resume=True)

    found, tried = curves(folder), RunFolder(folder).read_attempts()
    assert [attempt.step for attempt in tried] == [0, 8]
    assert tried[0].time < tried[1].time
    steps, losses = found.of("train/loss", "step")
    assert steps == [3, 6, 9, 12]
    flops, same = found.of("train/loss", "flops")
    assert same == losses
    # The update's are not counted.
    assert flops[3] == pytest.approx(estimate(program).flops.train_total, rel=0.01)
    assert flops[1] - flops[0] > 1.2 * (flops[3] - flops[2])  # of longer rows
    assert {"train/loss/sop", "train/tokens_per_second", "eval/accuracy/mlm"} <= {*found.names}
    assert found.points[-1].stage == "two"


def test_flops_of_a_task_are_of_rows_as_long_as_those_that_were_read(tmp_path, go):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hen", "pond"]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
    rows = "hen hen pond\tpond hen\ta\npond hen\then pond pond\tb\n" * 8  # of 8 tokens
    (tmp_path / "train.tsv").write_text("text\tpair\tlabel\n" + rows)
    spec = (
        f"vocab='{tmp_path}/vocab.txt' layers=2 hidden=32 heads=2 batch=4 seq=64 log_every=3 "
        f"steps=6 task=classify('{tmp_path}/train.tsv', pair=pair)"
    )
    told = estimate(spec)
    assert told.stages[0].row_tokens == 8
    go(resolve(spec))
    flops, _ = curves(tmp_path / "run").of("train/loss", "flops")
    assert flops[1] == 2 * flops[0] == pytest.approx(told.flops.train_total, rel=0.05)
    (listed,) = list_runs([tmp_path]).runs
    assert listed.flops == flops[1]


def test_a_damaged_line_of_attempts_is_named(tmp_path):
    (tmp_path / "attempts.jsonl").write_text('{"step": 0}\n')
    with pytest.raises(DataError, match=r"attempts.jsonl:1 is damaged"):
        RunFolder(tmp_path).read_attempts()


def test_a_run_is_in_use_while_it_is_claimed(tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert not folder.in_use
    with folder.claimed():
        assert folder.in_use
    assert not folder.in_use
