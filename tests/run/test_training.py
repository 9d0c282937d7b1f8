"""Whole runs on a tiny corpus."""

import json
import math
import shutil
import signal
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch._dynamo.utils import counters

from bertc.base.diagnostics import (
    CannotWriteError,
    DataError,
    MachineError,
    MissingInputError,
    ResumeRefusedError,
    StoppedError,
    UsageError,
)
from bertc.base.storage import durable
from bertc.cost.planning.plan import next_bytes
from bertc.ir.terms.masking import of_all_positions
from bertc.lab.results.runs import read_run
from bertc.lab.watch.terminal import look
from bertc.learn.step.step import TrainStep
from bertc.run.evaluation import held_out as evaluation
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.records.folder import RunFolder
from bertc.run.stepper import graphs_so_far
from bertc.run.train import phase
from bertc.run.train.loop import train
from tests.run.conftest import (
    after_updates,
    change_losses,
    final_tensors,
    lines,
    same_run,
    stop_after,
)

PAIRS = "objective=mlm+0.5*sop"


@pytest.fixture
def begun(finished, tmp_path):
    """A copy of the finished run of the tiny program."""
    return shutil.copytree(finished, tmp_path / "run")


def test_a_run_leaves_all_that_a_reader_needs_and_a_finished_one_stays(go, tiny, tmp_path):
    report = go(tiny(), spec_text="layers=2")
    folder = tmp_path / "run"
    assert (report.step, report.tokens) == (12, 12 * 8 * 24)
    assert report.evaluation is not None
    assert (folder / "spec.bertc").read_text() == "layers=2"
    assert RunFolder(folder).read_resolved() == tiny()
    assert (folder / "model" / "config.json").exists()
    assert (folder / "tokenizer" / "tokenizer.json").exists()
    lock = json.loads((folder / "lock.json").read_text())
    assert {"versions", "data", "machine", "plan", "threads"} <= lock.keys()
    saved = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert saved == ["step-00000008", "step-00000012"]
    assert all(each in report.summary() for each in ("held out", "unigram", "12 of 12 steps"))
    before = (folder / "metrics.jsonl").read_bytes()
    assert go(tiny(), resume=True) == report
    assert (folder / "metrics.jsonl").read_bytes() == before


def test_metrics_are_means_between_lines_and_evaluations_at_their_step(go, tiny, tmp_path):
    go(tiny(PAIRS, log_every=1), "each")
    go(tiny(PAIRS, log_every=5), "few")
    steps, logged = (lines(tmp_path / name, "train") for name in ("each", "few"))
    assert [line["step"] for line in steps] == list(range(1, 13))
    assert [line["step"] for line in logged] == [5, 10, 12]
    for line, first in zip(logged, (0, 5, 10), strict=True):
        part = steps[first : line["step"]]
        for field in ("loss", "grad_norm"):
            assert line[field] == pytest.approx(math.fsum(s[field] for s in part) / len(part))
        assert line["losses"].keys() == {"mlm", "sop"}
        assert line["lr"] == part[-1]["lr"]
        assert line["loss"] == pytest.approx(line["losses"]["mlm"] + 0.5 * line["losses"]["sop"])
        assert line["tokens"] == line["step"] * 8 * 24
        assert line["seconds"] > 0
        assert line["stage"] == "main"
    held_out = lines(tmp_path / "few", "eval")
    assert [line["step"] for line in held_out] == [6, 12]
    assert of_all_positions(held_out[0]["accuracy"]) == ["mlm", "sop"]
    assert held_out[0]["unigram_loss"] == held_out[1]["unigram_loss"] > 1


REMEMBERING = {
    "packed": f"{PAIRS} optimizer=lamb(1e-2, warmup=2) pack=true seq=64",
    "accumulated": "optimizer=adamw(bias_correction=false, warmup=0) microbatch=2 log_every=5",
    "remembering": "objective=clm memory=40 microbatch=2 attention=relative",
    "reusing": "objective=plm format=stream-pair(both_ways=true) segments=0 memory=20 microbatch=2 "
    "attention=relative(untie=true, segments=true) optimizer=stable-adamw(warmup=2)",
    "rising": "batch_warmup=rising(3, 5) optimizer=muon(1e-2, warmup=2) eval_every=3",
}


@pytest.mark.parametrize("settings", REMEMBERING.values(), ids=REMEMBERING)
def test_resuming_is_never_having_stopped(resumes, tiny, settings):
    # After the first; at an evaluation; before the end.
    resumes(tiny(settings, "steps=6 eval_every=3 save_every=100"), 1, 3, 5)


def test_an_evaluation_masks_its_own_share(go, tiny):
    """The unigram loss depends on nothing but the tokens that an evaluation predicts."""
    tasks = ("mlm", "mlm(30%, eval_p=15%)", "mlm(30%)")
    scored = [go(tiny(steps=4, objective=each), each).evaluation for each in tasks]
    usual, own, more = (evaluation.unigram_loss for evaluation in scored)
    assert usual == own != more


@pytest.mark.filterwarnings("ignore")  # The compiler's own.
def test_a_compiled_run_compiles_a_layer_once_and_resumes(go, tiny, tmp_path, cache, monkeypatch):
    """The text, the rate and the stage change; the graphs of a stage stay, and none is broken."""
    seen: list[int] = []
    # Kernels of the compiler's take as long again, and test_compiled.py holds them.
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    resolved = tiny(
        "layers=3 compile=on optimizer=lamb(1e-2, warmup=2) microbatch=4 eval_every=2 "
        f'save_every=100 stage "short" {{ steps=3 seq=16 }} stage "long" {{ steps=3 {PAIRS} }}'
    )
    torch.compiler.reset()
    counters.clear()
    with monkeypatch.context() as patch:
        after_updates(patch, lambda *_: seen.append(graphs_so_far()[0]))
        go(resolved, "straight")
    assert len(seen) == 6
    assert len({*seen[:3]}) == len({*seen[3:]}) == 1
    # Of embeddings, layer, last layer and loss of two stages one for training and one for
    # evaluation, and LAMB with and without its ratio.
    assert seen[0] < seen[-1] <= counters["stats"]["unique_graphs"] == 2 * 2 * 4 + 2
    assert not counters["graph_break"]
    eager = evaluate_run(tmp_path / "straight", cache=cache, quiet=True).evaluation
    last = lines(tmp_path / "straight")[-1]
    assert eager.losses == pytest.approx(last["losses"], rel=1e-5)
    assert (eager.positions, eager.accuracy) == (last["positions"], last["accuracy"])
    stop_after(monkeypatch, 4, lambda: go(resolved, "broken"))
    run, logged = read_run(tmp_path / "broken"), lines(tmp_path / "broken", "train")[-1]
    assert (run.step, look(run.folder).step, logged["step"]) == (4, 4, 3)
    assert run.tokens[4] > logged["tokens"]
    assert run.seconds > logged["seconds"]
    go(resolved, "broken", resume=True)
    same_run(tmp_path / "straight", tmp_path / "broken")


def test_a_stop_in_an_evaluation_leaves_it_due(finished, go, tiny, tmp_path, monkeypatch):
    real, signals = evaluation.corrupt, iter([signal.SIGINT])

    def stopping(*arguments):
        for number in signals:
            signal.raise_signal(number)
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "corrupt", stopping)
        caught = pytest.raises(StoppedError, go, tiny(), "broken")
    assert caught.value.exit_code == 130
    assert [line["step"] for line in lines(tmp_path / "broken")] == [3, 6]
    spent = RunFolder(tmp_path / "broken").read_spent
    assert sum(line.steps for line in spent()) == 6, "a report counts the steps of a stopped run"
    go(tiny(), "broken", resume=True)
    notes = [(line.step, line.steps) for line in spent() if line.steps]
    assert notes == [(4, 4), (6, 2), (8, 2), (12, 4)], "up to each checkpoint, if it is killed"
    same_run(finished, tmp_path / "broken")


def test_damaged_checkpoints_are_passed_over_and_lines_cut(begun, finished, tiny, capsys, cache):
    victim = begun / "checkpoints" / "step-00000012" / "weights.safetensors"
    raw = bytearray(victim.read_bytes())
    raw[-5] ^= 4
    victim.write_bytes(raw)
    with open(begun / "metrics.jsonl", "a") as file:
        file.write('{"kind": "tra')
    train(tiny(), begun, cache=cache, resume=True)
    assert "passed over" in capsys.readouterr().err
    same_run(finished, begun)


def test_what_cannot_resume_is_refused_with_the_difference(begun, go, tiny, tmp_path, corpus_file):
    pytest.raises(UsageError, go, tiny()).match("holds a run already")
    with pytest.raises(ResumeRefusedError) as caught:
        go(tiny("steps=20 seq=16 optimizer=adamw(2e-3, warmup=2)"), resume=True)
    for part in ("steps: 12 -> 20", "seq: 24 -> 16", "lr=0.002"):
        assert part in caught.value.message
    before = corpus_file.read_text()
    corpus_file.write_text(before + "\nThe duck is a lie.\n")
    try:
        pytest.raises(ResumeRefusedError, go, tiny(), resume=True).match("text")
    finally:
        corpus_file.write_text(before)
    for folder in (begun / "checkpoints").iterdir():
        (folder / "progress.json").unlink()
    pytest.raises(DataError, go, tiny(), resume=True).match(r"every checkpoint .* is damaged")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("x")
    pytest.raises(UsageError, go, tiny(), "other", resume=True).match(r"thesis\.tex")
    with RunFolder(tmp_path / "new").claim(), pytest.raises(StoppedError) as caught:
        go(tiny(), "new")
    assert caught.value.exit_code == 75
    assert "another run is using" in caught.value.message
    gone = tiny("data=files('gone.txt')")
    for name, kept in (("nothing", False), ("new", True)):
        (tmp_path / "new").mkdir(exist_ok=True)
        pytest.raises(MissingInputError, go, gone, name)
        assert (tmp_path / name).is_dir() == kept


def test_micro_batches_add_up_to_the_batch(go, tiny, tmp_path):
    for rows in (8, 4, 1):
        go(tiny(PAIRS, microbatch=rows, dropout=0, steps=6), str(rows))
    whole, held_out = final_tensors(tmp_path / "8"), lines(tmp_path / "8")
    for rows in ("4", "1"):
        parts = final_tensors(tmp_path / rows)
        assert all(torch.allclose(whole[n], parts[n], atol=2e-5) for n in whole if n[:2] != "v.")
        for one, other in zip(held_out, lines(tmp_path / rows), strict=True):
            if one["kind"] == "train":
                assert other["loss"] == pytest.approx(one["loss"], rel=1e-5)


def test_stages_change_what_is_trained_and_share_the_state(resumes, tiny, tmp_path):
    short = f'stage "short" {{ steps=5 seq=16 {PAIRS} }}'
    long = 'stage "long" { steps=4 batch=4 objective=mlm(30%) }'
    resumes(tiny(f"eval_every=3 {short} {long}"), 5, 6)
    found = lines(tmp_path / "straight")
    assert [(d["kind"], d["step"], d["stage"]) for d in found] == [
        (kind, step, stage)
        for step, stage in ((3, "short"), (5, "short"), (6, "long"), (9, "long"))
        for kind in ("train", "eval")
    ]
    assert found[-1]["tokens"] == 5 * 8 * 16 + 4 * 4 * 24
    assert found[0]["losses"].keys() == {"mlm", "sop"}
    assert of_all_positions(found[-1]["losses"]) == ["mlm"]


@pytest.mark.parametrize("place", ["loss", "gradient"])
def test_a_non_finite_number_stops_before_the_update(go, tiny, tmp_path, monkeypatch, place):
    def poisoned(_, call, loss, statistics, memory):
        if call == 6 and place == "loss":
            return loss * math.nan, statistics * math.nan, memory
        return loss * torch.tensor(math.inf if call == 6 else 1.0), statistics, memory

    change_losses(monkeypatch, poisoned)
    with pytest.raises(DataError, match="^step 5: the .*mlm.* examples") as caught:
        go(tiny(eval_every=100, log_every=1))
    assert caught.value.exit_code == 65
    assert [line["step"] for line in lines(tmp_path / "run")] == [1, 2, 3, 4, 5]


def test_running_out_of_memory_names_what_fits(go, tiny, monkeypatch):
    def narrow(*arguments):
        def call(batch, factors):
            if len(batch.reading.token_ids) > 2:
                raise torch.OutOfMemoryError("no")
            return torch.zeros(1, requires_grad=True).sum(), torch.zeros(2, 1), None

        return call

    monkeypatch.setattr(phase, "make_objective", narrow)
    with pytest.raises(MachineError, match="8 examples.* 2 do") as caught:
        go(tiny())
    assert "--set microbatch=2" in caught.value.help


@pytest.mark.parametrize("step", [2, 4, 12])
def test_a_folder_that_is_removed_during_training_is_named(go, tiny, tmp_path, monkeypatch, step):
    real = TrainStep.__call__

    def removing(self, inputs, at, *others):
        if at == step - 1:
            shutil.rmtree(tmp_path / "run")
        return real(self, inputs, at, *others)

    monkeypatch.setattr(TrainStep, "__call__", removing)
    pytest.raises(CannotWriteError, go, tiny()).match("cannot write .*: no such file")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("rule", ["adamw", "muon"])
def test_a_disk_too_full_for_a_checkpoint_is_refused_first(go, tiny, tmp_path, monkeypatch, rule):
    resolved = tiny(optimizer=rule, steps=2, save_every=1)
    go(resolved, "whole")
    step, model = tmp_path / "whole" / "checkpoints" / "step-00000001", tmp_path / "whole" / "model"
    saved = [*step.glob("*.safetensors"), *model.glob("*.safetensors")]
    needed = next_bytes(resolved, 0)
    assert needed <= sum(file.stat().st_size for file in saved) < needed + 40_000, "headers alone"
    monkeypatch.setattr(durable, "free_bytes", lambda path: needed - 1)
    with pytest.raises(CannotWriteError, match=f"the disk is full .{needed:,} bytes needed") as f:
        go(resolved)
    assert f.value.help == "make room, or choose another --out"
    assert not RunFolder(tmp_path / "run").holds_a_run


def test_a_held_out_loss_that_is_not_finite_is_an_error(go, tiny, monkeypatch):
    real, bad = phase.evaluate, {"mlm": math.nan}
    monkeypatch.setattr(phase, "evaluate", lambda *given: replace(real(*given), losses=bad))
    pytest.raises(DataError, go, tiny()).match("step 6: the held-out loss of mlm")
