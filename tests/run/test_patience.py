"""``patience``: the best weights are kept, ended with, and survive kill and resume."""

import pytest
import torch
from safetensors.torch import load_file

from bertc.base.diagnostics import DataError, StoppedError
from bertc.ir.learning.objective import Mlm, Term
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.methods import ending
from bertc.run.train import phase
from bertc.run.train.loop import train
from tests.run.conftest import lines, same_run


@pytest.fixture
def scored(monkeypatch):
    """Make evaluations show scores of one's own, by their step."""

    def make(scores):
        monkeypatch.setattr(ending, "mean_score", lambda stage, found: scores[steps[-1]])

    steps = []
    act = ending.Waiting.after_evaluation

    def after_evaluation(self, evaluation):
        steps.append(self.session.progress.step)
        act(self, evaluation)

    monkeypatch.setattr(ending.Waiting, "after_evaluation", after_evaluation)
    return make


@pytest.fixture
def tuned(tiny, barn):
    def make(**settings):
        own = {"objective": (Term(objective=barn),), "steps": 20, "eval_every": 2, "save_every": 4}
        return tiny(**{**own, "patience": 2, **settings})

    return make


def weights(run, step):
    return load_file(run / "checkpoints" / f"step-{step:08d}" / "weights.safetensors")


RISE_AND_FALL = {2: 0.5, 4: 0.7, 6: 0.7, 8: 0.6, 10: 0.9, 20: 0.1}


def test_a_stage_ends_early_with_its_best_weights(tuned, scored, tmp_path, options):
    scored(RISE_AND_FALL)
    report = train(tuned(keep=9), tmp_path / "run", **options)
    found = lines(tmp_path / "run", "eval")
    assert [line["step"] for line in found] == [2, 4, 6, 8, 20]
    assert found[-1]["best"] == {"step": 4, "ended": 8, "end": 20}
    assert found[-1]["scores"] == found[1]["scores"]
    assert "stage main stopped early at step 8 of 20: best at step 4" in report.notes
    best, last = weights(tmp_path / "run", 4), weights(tmp_path / "run", 20)
    assert all(torch.equal(best[name], last[name]) for name in best)
    again = evaluate_run(tmp_path / "run", **options)
    assert again.evaluation.losses == report.evaluation.losses == found[1]["losses"]
    assert not list((tmp_path / "run" / "checkpoints" / "step-00000020").glob("best*"))


def test_a_stage_that_was_never_stopped_ends_with_its_best_weights(
    tuned, scored, tmp_path, options
):
    scored({2: 0.5, 4: 0.7, 6: 0.6})
    report = train(tuned(steps=6), tmp_path / "run", **options)
    assert "stage main ended at step 6 of 6: best at step 4" in report.notes
    best, last = weights(tmp_path / "run", 4), weights(tmp_path / "run", 6)
    assert all(torch.equal(best[name], last[name]) for name in best)
    scored({2: 0.5, 4: 0.6, 6: 0.7})
    report = train(tuned(steps=6), tmp_path / "last", **options)
    assert not any("best" in note for note in report.notes)
    assert [line["step"] for line in lines(tmp_path / "last", "eval")] == [2, 4, 6]


def test_stopped_and_resumed_it_is_the_same(tuned, scored, resumes):
    scored(RISE_AND_FALL)
    resumes(tuned(stages={"one": {}, "two": {"steps": 6, "patience": 0}}), 2, 6, 7, 8, 23)


def test_an_evaluation_cut_short_at_the_end_is_made_again(
    tuned, scored, tmp_path, options, monkeypatch
):
    scored({2: 0.5, 4: 0.7, 6: 0.6})
    resolved = tuned(steps=6)
    train(resolved, tmp_path / "straight", **options)
    evaluate = phase.evaluate_tasks
    with monkeypatch.context() as patch:

        def stop(model, stage, data, stop, within, progress):
            if stop is not None and len(lines(tmp_path / "cut", "eval")) == 2:
                stop.agree(15)
            return evaluate(model, stage, data, stop, within, progress)

        patch.setattr(phase, "evaluate_tasks", stop)
        with pytest.raises(StoppedError):
            train(resolved, tmp_path / "cut", **options)
    train(resolved, tmp_path / "cut", resume=True, **options)
    same_run(tmp_path / "straight", tmp_path / "cut")


def test_the_next_stage_begins_where_it_would_have(tuned, barn, scored, tmp_path, options):
    scored(RISE_AND_FALL)
    task = (Term(objective=barn),)
    resolved = tuned(
        objective=(Term(objective=Mlm()),),
        stages={"one": {"objective": task, "steps": 20}, "text": {"steps": 4}},
    )
    assert [stage.patience for stage in resolved.stages] == [2, 0]
    report = train(resolved, tmp_path / "run", **options)
    assert (report.step, report.steps) == (8 + 4, 24), "what was made, of what was planned"
    assert [line["step"] for line in lines(tmp_path / "run", "train")] == [3, 6, 21, 24]


def test_nothing_to_be_judged_by_is_refused(tuned, barn, tmp_path, options):
    alone = (Term(objective=barn.model_copy(update={"dev": ""})),)
    with pytest.raises(DataError, match="none of its tasks has a dev part to score"):
        train(tuned(objective=alone), tmp_path / "run", **options)
