"""Stages that predict each next token, and stages that read in both directions, of one network."""

from pathlib import Path
from typing import Any

import pytest
import torch

from bertc.cost import estimate
from bertc.ir.changing.growth import Turned
from bertc.ir.learning.objective import Clm, Mlm, Term
from bertc.ir.network.head import TransformHead
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.models.loading import load
from bertc.run.models.runs import export_run
from bertc.run.train.loop import train
from bertc.use.fill_mask import fill
from tests.run.conftest import lines, same_run
from tests.run.test_average import stood_at
from tests.run.test_growth import begun

NEXT, MASKED = (Term(objective=Clm()),), (Term(objective=Mlm()),)
STAGES = {
    "decoder": {"objective": NEXT, "steps": 3},
    "encoder": {"objective": MASKED, "steps": 3},
    "back": {"objective": NEXT, "steps": 3},
}


@pytest.fixture(scope="module")
def run(tiny: Any, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """clm, mlm and clm again, three steps each, with a checkpoint at each seam."""
    found = tmp_path_factory.mktemp("turning") / "run"
    train(made(tiny), found, cache=cache, quiet=True)
    return found


def made(tiny: Any) -> Any:
    return tiny(stages=STAGES, save_every=1, eval_every=3, keep="all")


def test_only_directions_differ_and_the_optimiser_goes_on(tiny):
    stages = made(tiny).stages
    assert [stage.encoder.causal for stage in stages] == [True, False, True]
    assert [stage.grow for stage in stages] == [None, Turned(), Turned()]
    assert {stage.counted_from for stage in stages} == {0}
    assert len({stage.encoder.weights() for stage in stages}) == 1


@pytest.mark.parametrize(("step", "causal"), [(3, True), (6, False), (9, True)])
def test_tokens_see_later_ones_in_stages_of_both_directions_alone(run, step, causal):
    model = load(stood_at(run, step))
    ids = torch.randint(5, 100, (2, 12), generator=torch.Generator().manual_seed(0))
    other = ids.clone()
    other[:, 8:] += 1
    with torch.no_grad():
        states, changed = model.encode(ids), model.encode(other)
    assert torch.equal(states[:, :8], changed[:, :8]) is causal
    assert not torch.allclose(states[:, 8:], changed[:, 8:])


@pytest.mark.parametrize("step", [3, 6])
def test_resumed_at_a_seam_it_is_the_same(run, tiny, cache, step):
    resumed = stood_at(run, step, "resumed")
    train(made(tiny), resumed, cache=cache, quiet=True, resume=True)
    same_run(run, resumed)


def test_each_stage_is_evaluated_used_and_exported_in_its_direction(run, cache, tmp_path):
    shown = {line["step"]: line["losses"] for line in lines(run, "eval")}
    kinds = ["mlm", "mlm_masked", "mlm_replaced", "mlm_visible"]
    assert [[*losses] for losses in shown.values()] == [["clm"], kinds, ["clm"]]
    for step in (3, 6):
        again = evaluate_run(stood_at(run, step), cache=cache, quiet=True)
        assert again.evaluation.losses == pytest.approx(shown[step], rel=1e-6)
    assert len(fill(stood_at(run, 6), "old hens [MASK] in [MASK]").masks) == 2
    assert len(fill(run, "old hens cackle").masks) == 1
    both = export_run(stood_at(run, 6), tmp_path / "both")
    assert (both.layout, both.architecture) == ("bert", "BertForMaskedLM")
    assert any("all tokens of a row" in note and "clm" in note for note in both.notes)


def test_the_head_over_the_vocabulary_goes_on_under_its_other_name(tiny):
    old, moments, new, after = begun(tiny(stages={n: STAGES[n] for n in ("decoder", "encoder")}))
    before, now = dict(old.named_parameters()), dict(new.named_parameters())
    assert before.keys() == now.keys()
    for name, weight in now.items():
        source = name.replace("heads.mlm", "heads.clm")
        assert torch.equal(weight, before[source]), name
        assert torch.equal(after[f"v.{name}"], moments[f"v.{source}"]), name


def test_a_stage_costs_what_its_objective_does(tiny):
    stages = estimate(made(tiny)).stages
    for stage, objective in zip(stages, (NEXT, MASKED, NEXT), strict=True):
        alone = estimate(tiny(objective=objective, head=TransformHead())).stages[0]
        assert stage.flops.forward_per_example == alone.flops.forward_per_example
        assert stage.parameters.encoder == alone.parameters.encoder
