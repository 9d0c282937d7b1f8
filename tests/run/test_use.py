"""What a run is good for afterwards: eval and fill."""

import json
import signal

import pytest
import torch

from bertc.base.diagnostics import DataError, MissingInputError, StoppedError, UsageError
from bertc.run.evaluation import evaluate as evaluating
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.train.loop import train
from bertc.use import fill_mask as filling
from bertc.use.fill_mask import fill


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory, cache):
    folder = tmp_path_factory.mktemp("used") / "run"
    train(tiny(), folder, cache=cache, quiet=True)
    return folder


def test_eval_repeats_the_last_evaluation_of_the_run(run, cache):
    report = evaluate_run(run, cache=cache, quiet=True)
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["kind"] == "eval"
    assert report.evaluation is not None
    assert report.evaluation.loss == pytest.approx(last["loss"], rel=1e-6)
    assert report.evaluation.unigram_loss == pytest.approx(last["unigram_loss"])
    assert report.step == 12
    assert json.loads(report.as_json())["evaluation"]["losses"].keys() == last["losses"].keys()
    assert report.evaluation.base_rate == {}
    assert report.notes[-1] == "read in full-sentences rows of 24 tokens"


def test_a_stopped_evaluation_begins_again(run, cache, monkeypatch):
    monkeypatch.setattr(evaluating, "heldout_rows", lambda *_: signal.raise_signal(signal.SIGTERM))
    monkeypatch.setattr(evaluating, "counted", lambda *_: [None])
    with pytest.raises(StoppedError) as stopped:
        evaluate_run(run, cache=cache, quiet=True)
    assert stopped.value.help == "the same command begins again"


def test_eval_refuses_other_text(run, corpus_file, cache):
    before = corpus_file.read_text()
    corpus_file.write_text(before + "\nOne more.\n")
    try:
        with pytest.raises(DataError, match="text files have changed"):
            evaluate_run(run, cache=cache, quiet=True)
    finally:
        corpus_file.write_text(before)


def test_eval_of_no_run(tmp_path):
    with pytest.raises(MissingInputError, match="holds no run"):
        evaluate_run(tmp_path, quiet=True)


def test_fill_gives_the_likeliest_tokens_of_each_mask(run):
    found = fill(run, "Hens [MASK] and ducks [MASK].", top=3)
    assert len(found.masks) == 2
    for candidates in found.masks:
        probabilities = [c.probability for c in candidates]
        assert len(probabilities) == 3
        assert probabilities == sorted(probabilities, reverse=True)
        assert 0 < sum(probabilities) <= 1
    assert found.summary().startswith("mask 1:\n")
    assert json.loads(found.as_json())["masks"][0][0].keys() == {"token", "probability"}
    with pytest.raises(UsageError, match="no \\[MASK\\]"):
        fill(run, "Hens cackle.")


def test_fill_sees_long_texts_around_each_mask(run, monkeypatch):
    """Every mask stands in its own row, inside it, with as much text as fits."""
    rows = []
    real = filling.token_scores

    def watched(model, objective, reading, at_m):
        rows.append(len(at_m))
        return real(model, objective, reading, at_m)

    monkeypatch.setattr(filling, "token_scores", watched)
    text = "Hens cackle. " * 40
    found = fill(run, f"[MASK] {text} [MASK] {text} [MASK]", top=1)
    assert len(found.masks) == 3
    assert rows == [3]


def test_a_mask_is_answered_alike_wherever_the_window_begins(run):
    near = fill(run, "red barn " * 4 + "[MASK]" + " old pond" * 3)
    again = fill(run, "red barn " * 4 + "[MASK]" + " old pond" * 3)
    assert near == again
    assert torch.is_inference_mode_enabled() is False
