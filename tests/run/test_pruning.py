"""Stages that prune: what is removed stays so, the network left computes the same, runs resume."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from safetensors.torch import load_file

from bertc.api import resolve
from bertc.check.facts.networks import network_of
from bertc.cost import estimate
from bertc.hub.leaving.pruned import removed_units
from bertc.ir.changing.growth import FromRun
from bertc.ir.learning.objective import Mlm, Sop, Term
from bertc.ir.learning.optimizer import Lamb
from bertc.ir.methods.pruning import Heads, Neurons
from bertc.ir.network.attention import DisentangledAttention, RelativeAttention
from bertc.ir.network.ffn import Activation, Glu
from bertc.ir.network.norm import PreNorm
from bertc.ir.network.positions import NoPositions
from bertc.ir.network.sharing import ShareAll, ShareAttention
from bertc.ir.weight_maps.pruned import chosen_by_score, expected, pruned
from bertc.lab.bench.latency import of_folder
from bertc.lab.results.compare import results
from bertc.learn.step.gates import put_gates
from bertc.model import build
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.models.loading import load
from bertc.run.records.checkpoints import WEIGHTS
from bertc.run.train.loop import train
from tests.run.conftest import weights

STEPWISE = Heads(share=0.5, every=0.25, examples=16)


@pytest.fixture
def pruning(tiny: Any) -> Any:
    """A program that prunes for six steps, and trains for six more."""

    def make(kind: Any, **settings: object) -> Any:
        stages = {"prune": {"prune": kind, "steps": 6}, "again": {"steps": 6}}
        return tiny(stages=stages, **{"heads": 4, "ffn": 24, **settings})

    return make


def masked(resolved: Any, run: Path) -> Any:
    """The whole network of a run's newest checkpoint, zeros in place of what is gone."""
    model = build(resolved)
    model.load_state_dict(weights(run))
    return model.eval()


def size(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


KINDS: dict[str, tuple[Any, dict[str, object]]] = {
    "heads": (STEPWISE, {}),
    "heads of each layer": (Heads(share=0.5, within="layer"), {"norm": PreNorm()}),
    "heads by weights": (Heads(share=0.4, by="magnitude"), {"optimizer": Lamb(lr=1e-3, warmup=2)}),
    "heads at random": (Heads(share=0.4, by="random"), {"share": ShareAttention()}),
    "neurons": (Neurons(share=0.5, every=0.25, examples=16), {"activation": "relu"}),
    "gated neurons": (Neurons(share=0.5), {"activation": Glu(bias="outer")}),
    "neurons of any layer": (Neurons(share=0.3, within="network"), {"norm": PreNorm()}),
    "neurons of a shared layer": (Neurons(share=0.5), {"share": ShareAll()}),
    "heads by distance": (
        STEPWISE,
        {"attention": RelativeAttention(untie=True, segments=True), "positions": NoPositions()},
    ),
    "heads beside distances": (
        STEPWISE,
        {"attention": DisentangledAttention(buckets=8, distance=16), "positions": NoPositions()},
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_network_that_is_left_computes_the_same(name, pruning, tmp_path, cache):
    kind, settings = KINDS[name]
    resolved, run = pruning(kind, **settings), tmp_path / "run"
    report = train(resolved, run, cache=cache, quiet=True)
    whole, left = masked(resolved, run), load(run)
    ids = torch.randint(5, 100, (3, 20))
    assert torch.allclose(whole.encode(ids), left.encode(ids), atol=1e-5)
    assert f"{size(left):,} of {size(whole):,} parameters" in report.notes[0]
    predicted = estimate(resolved)
    assert predicted.pruned is not None
    assert predicted.pruned.parameters == size(left)
    assert predicted.pruned.forward_per_example < predicted.stages[-1].flops.forward_per_example
    assert estimate(expected(resolved)).pruned is None


def test_a_pruned_run_is_evaluated_exported_and_begun_from(pruning, tiny, tmp_path, cache):
    run = tmp_path / "run"
    report = train(pruning(Neurons(share=0.5)), run, cache=cache, quiet=True)
    again = evaluate_run(run, cache=cache, quiet=True)
    assert again.evaluation.loss == pytest.approx(report.evaluation.loss, rel=1e-5)
    config = json.loads((run / "model" / "config.json").read_text())
    assert config["intermediate_size"] == 12
    network = network_of(run)
    assert (network["heads"], network["ffn"]) == (4, 12)
    assert of_folder(run).resolved.encoder.layers[0].ffn == 12  # what latency is predicted of
    widths = {"heads": 4, "ffn": 12}
    further = tiny(**widths, init=FromRun(path=str(run)), steps=4)
    train(further, tmp_path / "further", cache=cache, quiet=True)
    (row,) = json.loads(results([run]).as_json())["groups"]
    assert row["runs"][0]["parameters_left"] == size(load(run))
    assert f"{size(load(run)):,}" in results([run]).as_table()


def test_heads_that_do_not_divide_the_width_are_begun_from(pruning, tmp_path, cache):
    run = tmp_path / "run"
    train(pruning(Heads(share=0.25, within="layer", by="magnitude")), run, cache=cache, quiet=True)
    begun = resolve(f"init='{run}' objective=mlm").encoder.layers
    assert {(layer.heads, layer.head_dim) for layer in begun} == {(3, 8)}


def test_a_pruning_run_resumes_to_the_same_bits(pruning, resumes):
    resumes(pruning(STEPWISE), 1, 3, 4, 8)


def test_what_is_removed_stays_removed(pruning, tmp_path, cache):
    resolved, run = pruning(STEPWISE, keep=9, save_every=1), tmp_path / "run"
    train(resolved, run, cache=cache, quiet=True)
    gone = []
    for checkpoint in sorted((run / "checkpoints").glob("step-*")):
        removed = removed_units(resolved.encoder, load_file(checkpoint / WEIGHTS))
        gone.append({(layer, head) for layer, n in removed["attention"].items() for head in n})
    assert [len(heads) for heads in gone] == [4] * 9
    assert all(heads == gone[0] for heads in gone)
    moments = load_file(checkpoint / "optimizer.safetensors")
    for layer, head in gone[0]:
        own = slice(8 * head, 8 * head + 8)
        assert not moments[f"m.encoder.attention.{layer}.value.weight"][own].any()
        assert not moments[f"v.encoder.attention.{layer}.output.weight"][:, own].any()


@pytest.mark.parametrize("activation", get_args(Activation))
def test_removed_neurons_have_no_gradient(activation, tiny):
    model = build(tiny(activation=activation))
    part = model.encoder.ffn["0"]
    with torch.no_grad():
        part.inner.weight[3], part.inner.bias[3], part.outer.weight[:, 3] = 0, 0, 0
    model.encode(torch.randint(5, 100, (2, 12))).square().sum().backward()
    for gradient in (
        part.inner.weight.grad[3],
        part.inner.bias.grad[3],
        part.outer.weight.grad[:, 3],
    ):
        assert not gradient.any()
    assert part.inner.weight.grad[2].any()


@pytest.mark.parametrize("share", [{}, {"share": ShareAll()}], ids=["own", "shared"])
@pytest.mark.parametrize("part", ["attention", "ffn"])
def test_gates_have_the_gradient_of_each_row(part, share, tiny):
    """|dL/dgate| of one row at a time, from what the output projection's weights say of it."""
    model = build(tiny(heads=4, ffn=24, **share))
    ids, expected_u = torch.randint(5, 100, (3, 12)), []
    with put_gates(model, part) as gates:
        model.encode(ids).square().sum().backward()
        sums_u = gates.sums()
    model.eval()
    for row in ids:
        model.zero_grad()
        model.encode(row[None]).square().sum().backward()
        name = "output" if part == "attention" else "outer"
        layers = getattr(model.encoder, part).values()
        weights = [getattr(layer, name).weight for layer in layers]
        products = [(w * w.grad).sum(0).view(24 if part == "ffn" else 4, -1) for w in weights]
        expected_u.append(torch.cat([product.sum(1) for product in products]).abs())
    assert torch.allclose(sums_u.float(), torch.stack(expected_u).sum(0), rtol=1e-3, atol=1e-5)
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_low_scores_go_and_every_layer_keeps_one():
    scores = {0: [0.1, 0.2, 0.3], 1: [4.0, 5.0, 6.0]}
    plain = Heads(share=0.5, normalize=False)
    assert chosen_by_score(plain, scores, {}, 0.5) == {0: [0, 1], 1: [0]}
    assert chosen_by_score(plain, scores, {1: [2]}, 0.5) == {0: [0, 1], 1: [2]}
    normalized = Heads(share=0.5)
    assert chosen_by_score(normalized, scores, {}, 0.5) == {0: [0, 1], 1: [0]}
    assert chosen_by_score(normalized, scores, {}, 0.2) == {0: [0], 1: []}
    each = Heads(share=0.4, within="layer")
    assert chosen_by_score(each, scores, {}, 0.4) == {0: [0], 1: [0]}


def test_rounds_are_spread_over_the_stage():
    found = {step: STEPWISE.share_gone(step, 7) for step in range(8)}
    assert {step: share for step, share in found.items() if share} == {0: 0.25, 3: 0.5}
    assert Heads(share=0.4, every=0.1).rounds == 4


def test_several_objectives_score_together(pruning, tmp_path, cache):
    terms = (Term(objective=Mlm()), Term(objective=Sop(), weight=0.5))
    resolved = pruning(STEPWISE, objective=terms, recompute="on")
    train(resolved, tmp_path / "run", cache=cache, quiet=True)
    removed = removed_units(resolved.encoder, dict(masked(resolved, tmp_path / "run").state_dict()))
    left = pruned(resolved, removed).encoder
    assert sum(layer.heads for layer in left.layers) == 4
