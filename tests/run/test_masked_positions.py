"""Held-out figures of masked language modelling by what the input has at a predicted position."""

import pytest
import torch

from bertc.ir.terms.masking import by_kind
from bertc.lab.results.figures import values_of
from bertc.lab.results.runs import read_run
from bertc.learn.objectives.term import Predicted
from bertc.learn.objectives.text.mlm import MaskedTensors
from bertc.run.evaluation import held_out
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.records.folder import RunFolder
from bertc.run.train.loop import train
from bertc.run.train.report import plateau_lines
from tests.run.conftest import lines

PARTS = by_kind("mlm")


@pytest.fixture
def go(tiny, tmp_path, go):
    """Train for two steps, and return the report and the lines of its evaluations."""

    def run(written=""):
        report = go(tiny(f"{written} steps=2 eval_examples=64"))
        return report, lines(tmp_path / "run", "eval")

    return run


OBJECTIVES = {
    "tokens": "2*mlm",
    "words": "2*mlm(unit=word)+2*nsp",
    "spans": "2*mlm(unit=span)+2*sbo",
    "ngrams": "2*mlm(30%, unit=ngram)",
    "electra": "2*rtd+2*mlm(replace=85/0/15, distinct=false) generator=0.5",
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_parts_make_the_whole(go, tmp_path, cache, name):
    report, lines = go(f"objective={OBJECTIVES[name]}")
    found = report.evaluation
    parts = {part: found.positions[part] for part in PARTS if part in found.positions}
    assert parts.keys() == {*PARTS} - ({"mlm_replaced"} if name == "electra" else set())
    count = sum(parts.values())
    for figures in (found.losses, found.accuracy, found.unigram_losses):
        mean = sum(figures[part] * n for part, n in parts.items()) / count
        assert mean == pytest.approx(figures["mlm"], rel=1e-5)
    of_masked = found.losses["mlm_masked"] - found.losses["mlm"]
    assert found.loss_masked == pytest.approx(found.loss + 2 * of_masked)
    assert 0.6 < parts["mlm_masked"] / count < 0.95
    assert not any(part.startswith("sbo_") for part in found.losses)
    # Evaluated again: the same.
    again = evaluate_run(tmp_path / "run", cache=cache, quiet=True).evaluation
    assert values_of({"kind": "eval", **again.fields()}) == pytest.approx(values_of(lines[-1]))


def test_a_model_that_copies_knows_nothing_of_masked_positions(go, tmp_path, cache, monkeypatch):
    go()
    known = {}
    real = held_out.evaluate
    monkeypatch.setattr(
        "bertc.run.evaluation.evaluate.evaluate",
        lambda *given: (known.update(nats_v=given[5][0]), real(*given))[1],
    )

    def copied(self, targets, read):
        """Certain of what it sees, but for [MASK]; of the rest it knows the frequencies."""
        tokens_bk = read.batch.reading.token_ids.gather(1, targets.positions)
        same_bk = tokens_bk == targets.targets
        nats_bk = known["nats_v"][targets.targets].float()
        return Predicted(torch.where(same_bk, 0.0, nats_bk), same_bk)

    monkeypatch.setattr(MaskedTensors, "score", copied)
    report = evaluate_run(tmp_path / "run", cache=cache, quiet=True)
    found = report.evaluation
    masked, replaced, visible = PARTS
    for part in (masked, replaced):
        assert found.losses[part] == pytest.approx(found.unigram_losses[part])
        assert found.accuracy[part] == 0
    assert (found.losses[visible], found.accuracy[visible]) == (0, 1)
    # Of all positions it looks like learning.
    assert found.unigram_losses["mlm"] - found.losses["mlm"] > 0.1
    assert "no better than guessing by token frequency" in report.summary(evaluated_only=True)


def test_with_masked_positions_alone_there_is_one_figure(go):
    report, (line,) = go("objective=mlm(replace=100/0/0)")
    assert line["losses"]["mlm_masked"] == line["losses"]["mlm"] == line["loss_masked"]
    assert line["positions"].keys() == {"mlm_masked"}
    summary = report.summary()
    assert "mlm, masked" in summary
    assert "all predicted" not in summary


def test_without_masked_positions_that_is_said(go, tmp_path, cache):
    """Among other tokens that are drawn at random, [MASK] is one of them."""
    report, (line,) = go("objective=mlm(100%, replace=0/100/0)")
    assert "loss_masked" not in line
    assert {*line["positions"]} <= {"mlm_replaced", "mlm_visible"}
    assert "mlm, all predicted" in report.summary()
    said = evaluate_run(tmp_path / "run", cache=cache, quiet=True).summary(evaluated_only=True)
    assert "no held-out position is masked: losses are of all predicted ones" in said
    assert read_run(tmp_path / "run").last.values == {("mlm",): line["losses"]["mlm"]}


def test_a_plateau_is_remarked_once_in_a_run(tiny, tmp_path, cache, capsys):
    late = tiny("steps=8 eval_every=2 optimizer=adamw(1e-3, warmup=3)")
    train(late, tmp_path / "run", cache=cache)
    said = capsys.readouterr().err.splitlines()
    (at,) = [number for number, line in enumerate(said) if line.startswith("masked positions are")]
    assert said[at - 1].startswith("step 4: held-out mlm, masked ")
    for other in (Evaluation(1.0, {"nsp": 1.0}, {}, 2), _evaluation(below=0.21)):
        assert plateau_lines(other) == []
    (line,) = plateau_lines(_evaluation(below=0.19))
    assert "only 0.19 nat below guessing" in line


def _evaluation(below):
    losses = {"mlm": 4.0, "mlm_masked": 5.0}
    guessed = {"mlm": 5.0, "mlm_masked": 5.0 + below}
    return Evaluation(4.0, losses, {}, 2, positions={"mlm_masked": 9}, unigram_losses=guessed)


OLD = {
    "kind": "eval", "step": 1, "stage": "main", "tokens": 9, "seconds": 1.0, "loss": 2.0,
    "losses": {"mlm": 2.0}, "accuracy": {"mlm": 0.5}, "examples": 8, "unigram_loss": 2.5,
    "unigram_losses": {"mlm": 2.5},
}  # fmt: skip


def test_an_older_run_keeps_its_figures_under_their_name(go, tmp_path, monkeypatch):
    _, new = go()
    monkeypatch.setattr(RunFolder, "read_metrics", lambda _: [OLD])
    run = read_run(tmp_path / "run")
    assert run.last.values == {("mlm",): 2.0}
    assert run.ranked(run.last) == ("held-out loss, all predicted", 2.0)
    assert values_of(OLD)["eval/loss/mlm"] == 2.0
    # One that went on: losses of masked positions are not held against those of all.
    monkeypatch.setattr(RunFolder, "read_metrics", lambda _: [OLD, *new])
    run = read_run(tmp_path / "run")
    assert run.best == run.last
    assert [*run.last.values] == [("mlm_masked",)]
    assert run.ranked(run.last)[0] == "held-out loss, masked"
