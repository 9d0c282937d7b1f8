"""The weights that a stage ends with: their means (``average``), or the best (``patience``).
Means equal their closed forms, and both survive kill and resume.
"""

import json
import shutil

import pytest
import torch

from bertc.api import resolve
from bertc.base.diagnostics import DataError, StoppedError
from bertc.cost import as_json, estimate
from bertc.lab.results.runs import read_run
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.methods import acting
from bertc.run.models.loading import read_checkpoint, read_model
from bertc.run.records.folder import RunFolder
from bertc.run.train import phase
from bertc.run.train.loop import train
from tests.run.conftest import lines, same_run, same_tensors, tensors_at

STAGES: dict[str, dict[str, object]] = {
    "moving": {"steps": 6, "layers": 1, "average": "ema(25%)"},  # 1.5 of 6 steps, so 2
    "longer": {"steps": 4, "average": "ema(4)"},
    "plain": {"steps": 1},
}
FAST = "adamw(1e-2, warmup=0, schedule=constant)"


def made(tiny):
    return tiny(stages=STAGES, optimizer=FAST, save_every=1, keep="all", eval_every=1)


@pytest.fixture(scope="module")
def run(tiny, cache, tmp_path_factory):
    """A run with an average in two of three stages, a checkpoint a step."""
    found = tmp_path_factory.mktemp("average") / "run"
    train(made(tiny), found, cache=cache, quiet=True)
    return found


def averaged_steps(run):
    found = (run / "checkpoints").glob("*/average.safetensors")
    return sorted(int(path.parent.name[5:]) for path in found)


def test_averages_equal_their_closed_forms(run):
    """In fp64; with a half-life of h, weights count 2^(-1/h) of those a step later."""
    assert averaged_steps(run) == [*range(1, 11)]
    for first, end, half_life in ((1, 6, 2), (7, 10, 4)):
        keep = 0.5 ** (1 / half_life)
        for name, last in tensors_at(run, end, "average").items():
            after = {step: tensors_at(run, step)[name].double() for step in range(first, end + 1)}
            wanted = keep ** (end - first) * after.pop(first)
            wanted += sum((1 - keep) * keep ** (end - step) * of for step, of in after.items())
            assert torch.allclose(last.double(), wanted, rtol=0, atol=1e-6), name


def stood_at(run, step, name="at"):
    """The run as it was after a step."""
    copy = run.with_name(f"{name}-{step}")
    if not copy.exists():
        shutil.copytree(run, copy, ignore=shutil.ignore_patterns("checkpoints", "model", "*.png"))
        name = f"step-{step:08d}"
        shutil.copytree(run / "checkpoints" / name, copy / "checkpoints" / name)
    return copy


def test_the_average_is_what_is_evaluated_and_loaded(run, cache):
    shown = {line["step"]: line["losses"] for line in lines(run, "eval")}
    for step, kind in ((6, "average"), (9, "average"), (11, "weights")):
        read = read_model(stood_at(run, step))[1]
        assert all(torch.equal(read[n], t) for n, t in tensors_at(run, step, kind).items())
        again = evaluate_run(stood_at(run, step), cache=cache, quiet=True)
        assert again.evaluation.losses == pytest.approx(shown[step], rel=1e-6)
        assert any("of the average" in note for note in again.notes) == (kind == "average")
    raw = read_checkpoint(run, 6, "trained")[1]
    assert all(torch.equal(raw[name], weight) for name, weight in tensors_at(run, 6).items())


def test_resumed_at_any_step_it_is_the_same(tiny, resumes):
    resumes(made(tiny), 6, 8)


@pytest.mark.parametrize(("settings", "kind"), [({"layers": 2}, "average"), ({}, "weights")])
def test_a_stage_begins_with_the_average_or_the_weights(tiny, go, tmp_path, run, settings, kind):
    """Its rate is too small to move a weight; those of the stage before are no average's."""
    first = {**STAGES["moving"], "average": "ema(3)", "optimizer": FAST}
    still = {"layers": 1, "steps": 1, "optimizer": "adamw(1e-30, warmup=0)"}
    stages = {"moving": first, "next": {**still, **settings}}
    go(tiny(stages=stages, save_every=6, keep="all", eval_every=9), kind)
    before, after = tensors_at(tmp_path / kind, 6, kind), tensors_at(tmp_path / kind, 7)
    assert all(torch.equal(after[name], weight) for name, weight in before.items())
    assert averaged_steps(tmp_path / kind) == [6]
    raw = tensors_at(tmp_path / kind, 6)
    assert all(torch.equal(raw[name], weight) for name, weight in tensors_at(run, 6).items())


def test_what_is_pruned_is_gone_of_the_average_too(tiny, go, tmp_path, cache):
    prune = "neurons(50%, every=25%, examples=8)"
    report = go(tiny(prune=prune, average="ema(3)", steps=6, save_every=6), "pruned")
    again = evaluate_run(tmp_path / "pruned", cache=cache, quiet=True)
    assert again.evaluation.loss == pytest.approx(report.evaluation.loss, rel=1e-5)
    assert "parameters are left" in report.notes[0]


def test_an_average_takes_what_the_estimate_says(run, tiny):
    with_it, without = estimate(tiny(average="ema(2)")), estimate(tiny())
    held = sum(mean.nbytes for mean in tensors_at(run, 10, "average").values())
    assert with_it.memory.methods_bytes == held
    assert with_it.memory.peak_bytes - without.memory.peak_bytes == held
    assert "methods, of it" in str(with_it)
    assert "average" not in as_json([without])
    # Weights and averages are read, averages written, after every step.
    specs = ("average=none", "average=ema(200)")
    none, each = (estimate(resolve("bert-base", [spec]), "a100") for spec in specs)
    passes = each.time.seconds_total - none.time.seconds_total
    seconds = 12 * none.parameters.total / 1.6e12
    assert passes == pytest.approx(1_000_000 * seconds, rel=0.05)


def test_a_run_with_another_average_is_refused_by_name(run):
    file = stood_at(run, 6, "other") / "resolved.json"
    content = json.loads(file.read_text())
    content["stages"][0]["average"]["kind"] = "checkpoints"
    file.write_text(json.dumps(content))
    pytest.raises(DataError, read_model, file.parent).match(r"average is missing or unknown")


@pytest.fixture
def scored(monkeypatch):
    """Make evaluations show scores of one's own, by their step."""

    def make(scores):
        monkeypatch.setattr(acting, "mean_score", lambda stage, found: scores[steps[-1]])

    steps = []
    act = acting.Waiting.after_evaluation

    def after_evaluation(self, evaluation):
        steps.append(self.session.progress.step)
        act(self, evaluation)

    monkeypatch.setattr(acting.Waiting, "after_evaluation", after_evaluation)
    return make


@pytest.fixture
def tuned(tiny, barn):
    def make(**settings):
        usual = {"objective": barn, "steps": 20, "eval_every": 2, "save_every": 4, "patience": 2}
        return tiny(**{**usual, **settings})

    return make


RISE_AND_FALL = {2: 0.5, 4: 0.7, 6: 0.7, 8: 0.6, 10: 0.9, 20: 0.1}


def test_a_stage_ends_early_with_its_best_weights(tuned, scored, tmp_path, options, go):
    scored(RISE_AND_FALL)
    report = go(tuned(keep=9))
    found = lines(tmp_path / "run", "eval")
    assert [line["step"] for line in found] == [2, 4, 6, 8, 20]
    assert found[-1]["best"] == {"step": 4, "ended": 8, "end": 20}
    assert found[-1]["scores"] == found[1]["scores"]
    assert "stage main stopped early at step 8 of 20: best at step 4" in report.notes
    same_tensors(*(tensors_at(tmp_path / "run", step) for step in (4, 20)))
    again = evaluate_run(tmp_path / "run", **options)
    assert again.evaluation.losses == report.evaluation.losses == found[1]["losses"]
    assert ((again.step, again.steps), again.notes[-1]) == ((8, 20), report.notes[-1])
    made = (line.steps for line in RunFolder(tmp_path / "run").read_spent())
    assert sum(made) == read_run(tmp_path / "run").step == 8
    assert not list((tmp_path / "run" / "checkpoints" / "step-00000020").glob("best*"))


def test_a_stage_never_stopped_ends_with_its_best_weights(tuned, scored, tmp_path, go, barn):
    scored({2: 0.5, 4: 0.7, 6: 0.6})
    report = go(tuned(steps=6))
    assert "stage main ended at step 6 of 6: best at step 4" in report.notes
    same_tensors(*(tensors_at(tmp_path / "run", step) for step in (4, 6)))
    scored({2: 0.5, 4: 0.6, 6: 0.7})
    report = go(tuned(steps=6), "last")
    assert not any("best" in note for note in report.notes)
    assert [line["step"] for line in lines(tmp_path / "last", "eval")] == [2, 4, 6]
    alone = barn.replace(f", '{tmp_path}/dev.tsv'", "")
    with pytest.raises(DataError, match="none of its tasks has a dev part to score"):
        go(tuned(objective=alone), "alone")


def test_stopped_and_resumed_it_is_the_same(tuned, scored, resumes):
    scored(RISE_AND_FALL)
    resumes(tuned(stages={"one": {}, "two": {"steps": 6, "patience": 0}}), 2, 6, 7, 8, 23)


def test_an_evaluation_cut_short_at_the_end_is_made_again(tuned, scored, tmp_path, monkeypatch, go):
    scored({2: 0.5, 4: 0.7, 6: 0.6})
    resolved = tuned(steps=6)
    go(resolved, "straight")
    evaluate = phase.evaluate_tasks
    with monkeypatch.context() as patch:

        def stop(model, stage, data, stop, within, progress):
            if stop is not None and len(lines(tmp_path / "cut", "eval")) == 2:
                stop.agree(15)
            return evaluate(model, stage, data, stop, within, progress)

        patch.setattr(phase, "evaluate_tasks", stop)
        pytest.raises(StoppedError, go, resolved, "cut")
    go(resolved, "cut", resume=True)
    same_run(tmp_path / "straight", tmp_path / "cut")


def test_the_next_stage_begins_where_it_would_have(tuned, barn, scored, tmp_path, go):
    scored(RISE_AND_FALL)
    stages = {"one": {"objective": barn, "steps": 20}, "text": {"steps": 4}}
    resolved = tuned(objective="mlm", stages=stages)
    assert [stage.patience for stage in resolved.stages] == [2, 0]
    report = go(resolved)
    assert (report.step, report.steps) == (8 + 4, 24), "what was made, of what was planned"
    assert [line["step"] for line in lines(tmp_path / "run", "train")] == [3, 6, 21, 24]
