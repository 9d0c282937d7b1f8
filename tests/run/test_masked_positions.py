"""Masks that change, and held-out figures by what the input has at a predicted position."""

import pytest
import torch
from safetensors.torch import load_file

from bertc.api import resolve
from bertc.base.diagnostics import SpecError
from bertc.ir.terms.masking import kind_names
from bertc.lab.results.figures import values_of
from bertc.lab.results.runs import read_run
from bertc.learn.objectives import corrupt
from bertc.learn.objectives.term import Predicted
from bertc.learn.objectives.text.mlm import MaskedTensors
from bertc.learn.step.memory import MEMORY, TypeWeights
from bertc.learn.step.micro_batches import corruption
from bertc.run.evaluation import held_out
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.records.folder import RunFolder
from bertc.run.train.loop import train
from bertc.run.train.report import plateau_lines
from tests.learn.material import chosen, program, rows, vocab
from tests.run.conftest import lines

PARTS = kind_names("mlm")


@pytest.fixture
def masked(tiny, tmp_path, go):
    """Train for two steps, and return the report and the lines of its evaluations."""

    def run(written=""):
        return go(tiny(f"{written} steps=2 eval_examples=64")), lines(tmp_path / "run", "eval")

    return run


OBJECTIVES = {
    "tokens": "2*mlm", "words": "2*mlm(unit=word)+2*nsp", "spans": "2*mlm(unit=span)+2*sbo",
    "ngrams": "2*mlm(30%, unit=ngram)",
    "electra": "2*rtd+2*mlm(replace=85/0/15, distinct=false) generator=0.5",
}  # fmt: skip


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_parts_make_the_whole(masked, tmp_path, cache, name):
    report, lines = masked(f"objective={OBJECTIVES[name]}")
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


def test_a_model_that_copies_knows_nothing_of_masked_tokens(masked, tmp_path, cache, monkeypatch):
    masked()
    known = {}
    real = held_out.evaluate
    monkeypatch.setattr(
        "bertc.run.evaluation.evaluate.evaluate",
        lambda *given: (known.update(nats_v=given[5][0]), real(*given))[1],
    )

    def copied(self, targets, read):
        """Certain of what it sees, but for [MASK]; of the rest it knows the frequencies."""
        same_bk = read.batch.reading.token_ids.gather(1, targets.positions) == targets.targets
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


def test_with_masked_positions_alone_there_is_one_figure(masked):
    report, (line,) = masked("objective=mlm(replace=100/0/0)")
    assert line["losses"]["mlm_masked"] == line["losses"]["mlm"] == line["loss_masked"]
    assert line["positions"].keys() == {"mlm_masked"}
    summary = report.summary()
    assert "mlm, masked" in summary
    assert "all predicted" not in summary


def test_without_masked_positions_that_is_said(masked, tmp_path, cache):
    """Among other tokens that are drawn at random, [MASK] is one of them."""
    report, (line,) = masked("objective=mlm(100%, replace=0/100/0)")
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
        assert plateau_lines(other, late.stages[0]) == []
    for has in ("", "norm=pre positions=rotary"):
        (line,) = plateau_lines(_evaluation(below=0.19), tiny(has).stages[0])
        assert "only 0.19 nat below guessing" in line
        assert ("steps, rotary positions, norm=pre, more masks" in line) == (not has), line


def _evaluation(below):
    losses = {"mlm": 4.0, "mlm_masked": 5.0}
    guessed = {"mlm": 5.0, "mlm_masked": 5.0 + below}
    return Evaluation(4.0, losses, {}, 2, positions={"mlm_masked": 9}, unigram_losses=guessed)


OLD = {
    "kind": "eval", "step": 1, "stage": "main", "tokens": 9, "seconds": 1.0, "loss": 2.0,
    "losses": {"mlm": 2.0}, "accuracy": {"mlm": 0.5}, "examples": 8, "unigram_loss": 2.5,
    "unigram_losses": {"mlm": 2.5},
}  # fmt: skip


def test_an_older_run_keeps_its_figures_under_their_name(masked, tmp_path, monkeypatch):
    _, new = masked()
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


SEQ = 100


def counts(stage, number):
    """Predicted tokens of each of four full rows in batch ``number``."""
    (part,), _ = corruption(stage, vocab(), 3, 4)(rows(8, SEQ, full=True), 4, number)
    return part.terms["mlm"].weights.sum(1).tolist()


def test_the_share_of_masked_tokens_falls_in_every_step_of_the_run():
    """GPT-BERT, dataset.py, apply_mask: start + (end - start) * step / max_steps."""
    blocks = 'stage "a" {steps=30} stage "b" {steps=50} stage "c" {steps=20 objective=span}'
    blocks = blocks.replace("span", "mlm(40%,p_end=20%)")
    size = "layers=1 hidden=16 heads=2 vocab=1000 seq=100 batch=4"
    stages = resolve(f"{size} {blocks} objective=mlm(40%,p_end=15%)").stages
    for step in range(100):
        stage = next(s for s in stages if s.first_step <= step < s.first_step + s.steps)
        share = 0.4 - 0.2 * (step - 80) / 20 if step >= 80 else 0.4 - 0.25 * step / 100
        wanted = pytest.approx([SEQ * share] * 4, abs=0.501)
        assert counts(stage, step - stage.first_step) == wanted
    # Each stage has room for its own first share.
    assert [stage.predictions() for stage in stages] == [40, 33, 40]
    held_out = [stage.held_out.objective[0].objective for stage in stages]
    assert [(one.p, one.p_end) for one in held_out] == [(0.15, 0)] * 2 + [(0.2, 0)]


def test_batches_made_at_once_have_the_shares_of_their_steps():
    stage = program("mlm(40%,p_end=20%)", SEQ, "steps=10 batch=4").stages[0]
    made = corruption(stage, vocab(), 3, 2)(rows(12, SEQ, full=True), 4, 3)
    taken = [[int(part.terms["mlm"].weights[0].sum()) for part in parts] for parts in made]
    assert taken == [[34, 34], [32, 32], [30, 30]]


@pytest.mark.parametrize("objective", ["mlm(p_end=20%)", "mlm(count=up, unit=adaptive)"])
def test_what_cannot_change_is_refused(objective):
    pytest.raises(SpecError, program, objective, SEQ)


def test_weights_of_types_are_those_of_the_published_formula():
    stage = program("mlm(40%,unit=adaptive(every=2,smooth=0.2))", SEQ).stages[0]
    generator, types = torch.Generator().manual_seed(0), TypeWeights.equal(1000)
    published = torch.full((1000,), 0.4, dtype=torch.float64)
    for step in range(0, 8, 2):
        seen = torch.randint(0, 50, (2, 1000), generator=generator).float()
        right = (seen * torch.rand((2, 1000), generator=generator)).round()
        for place in (0, 1):
            types = types.after(torch.stack([seen[place], right[place]]), stage, step + place)
        # Smoothed accuracy; 20% of the old weight; at least 0.005; the mean is the share.
        accuracy = (right.sum(0).double() + 0.5) / (seen.sum(0).double() + 1)
        published = (0.2 * published + 0.8 * 0.4 * (1 - accuracy)).clamp(min=0.005)
        published = published * 0.4 / published.mean()
        assert torch.allclose(types.weights.double() * 0.4, published, rtol=1e-5)
        assert not types.counts.any()


def test_tokens_are_masked_by_chances_in_proportion_to_the_weights_of_their_types():
    """As train_mask.py: of each row they are scaled to the mean p, but special tokens stay."""
    p, count, inputs = 0.3, 4000, rows(1, SEQ, full=True, pairs=False)
    many = type(inputs)(*(x.expand(count, *x.shape[1:]) for x in inputs))
    many = many._replace(example_ids=torch.arange(count))
    weights = torch.rand(1000, generator=torch.Generator().manual_seed(1)) + 0.2
    stage = program(f"mlm({p},unit=adaptive)", SEQ).stages[0]
    marks = chosen(corrupt(stage, many, vocab()._replace(weights=weights), 5))
    wanted = weights[inputs.token_ids[0]].double()
    wanted[[0, -1]] = 0
    wanted *= p * (SEQ - 2) / wanted.sum()
    assert wanted.max() < 1
    spread = (wanted * (1 - wanted) / count).sqrt()
    assert ((marks.double().mean(0) - wanted).abs() <= 5 * spread).all()


def test_a_run_with_changing_masks_resumes_to_the_bit(tiny, resumes, tmp_path):
    masks = "objective=mlm(40%, p_end=15%, unit=adaptive(every=3, smooth=0.2))"
    resumes(tiny(f"{masks} microbatch=4 steps=10 save_every=5"), 2, 4)
    *_, newest = sorted((tmp_path / "straight" / "checkpoints").glob("step-*"))
    state, other = (
        load_file(run / newest.name / MEMORY)
        for run in (newest.parent, tmp_path / "broken" / "checkpoints")
    )
    assert state["weights"].std() > 0.05
    assert state["counts"][0].sum() > 0
    assert all(torch.equal(state[name], other[name]) for name in state)
    assert lines(tmp_path / "straight", "eval")
