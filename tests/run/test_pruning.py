"""Stages that prune, and what is inside a run: attention maps, models without some heads.
What is removed stays so, the network left computes the same, runs resume.
"""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from einops import rearrange
from safetensors.torch import load_file

from bertc.api import resolve
from bertc.check.facts.networks import network_of
from bertc.cost import estimate
from bertc.hub.leaving.pruned import find_removed
from bertc.ir.methods.pruning import Heads
from bertc.ir.network.ffn import Activation
from bertc.ir.weight_maps.pruned import choose_by_score, program_left, prune
from bertc.lab.bench.latency import of_folder
from bertc.lab.results.compare import results
from bertc.model import EncoderInputs, Model, build
from bertc.model.inputs import Memory, PermutationMask
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.methods.acting import put_gates
from bertc.run.models.loading import load
from bertc.run.records.checkpoints import WEIGHTS
from bertc.use.attention import see_maps
from tests.run.conftest import weights

STEPWISE = "heads(50%, every=25%, examples=16)"


@pytest.fixture
def pruning(tiny: Any) -> Any:
    """A program that prunes for some steps, and trains for as many more."""

    def make(prune: str, more: str = "", steps: int = 6) -> Any:
        stages = f'stage "prune" {{ prune={prune} }} stage "again" {{ prune=none }}'
        return tiny(f"heads=4 ffn=24 steps={steps} {more} {stages}")

    return make


def masked(resolved: Any, run: Path) -> Any:
    """The whole network of a run's newest checkpoint, zeros in place of what is gone."""
    model = build(resolved)
    model.load_state_dict(weights(run))
    return model.eval()


def size(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


KINDS = {
    "heads": (STEPWISE, ""),
    "heads of each layer": ("heads(50%, within=layer)", "norm=pre"),
    "heads by weights": ("heads(40%, by=magnitude)", "optimizer=lamb(1e-3, warmup=2)"),
    "shared heads": ("heads(40%, by=magnitude)", "share=attention"),
    "neurons": ("neurons(50%, every=25%, examples=16)", "activation=relu"),
    "gated neurons": ("neurons(50%)", "activation=geglu(bias=outer)"),
    "neurons of any layer": ("neurons(30%, within=network)", "norm=pre"),
    "neurons of a shared layer": ("neurons(50%)", "share=all"),
    "heads by distance": (STEPWISE, "attention=relative(untie=true, segments=true) positions=none"),
    "heads beside distances": (STEPWISE, "attention=disentangled(8, 16) positions=none"),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_network_that_is_left_computes_the_same(name, pruning, tmp_path, go):
    resolved, run = pruning(*KINDS[name], steps=3), tmp_path / "run"
    report = go(resolved)
    whole, left = masked(resolved, run), load(run)
    ids = torch.randint(5, 100, (3, 20))
    assert torch.allclose(whole.encode(ids), left.encode(ids), atol=1e-5)
    assert f"{size(left):,} of {size(whole):,} parameters" in report.notes[0]
    predicted = estimate(resolved)
    assert predicted.left.parameters == size(left)
    assert predicted.left.forward_per_example < predicted.stages[-1].flops.forward_per_example
    assert estimate(program_left(resolved)).left is None


def test_a_pruned_run_is_evaluated_exported_and_begun_from(pruning, tiny, tmp_path, cache, go):
    run = tmp_path / "run"
    report = go(pruning("neurons(50%)"))
    again = evaluate_run(run, cache=cache, quiet=True)
    assert again.evaluation.loss == pytest.approx(report.evaluation.loss, rel=1e-5)
    assert json.loads((run / "model" / "config.json").read_text())["intermediate_size"] == 12
    network = network_of(run)
    assert (network["heads"], network["ffn"]) == (4, 12)
    assert of_folder(run).resolved.encoder.layers[0].ffn == 12  # what latency is predicted of
    go(tiny(f"heads=4 ffn=12 init='{run}' steps=4"), "further")
    (row,) = json.loads(results([run]).as_json())["groups"]
    assert row["runs"][0]["parameters_left"] == size(load(run))
    assert f"{size(load(run)):,}" in results([run]).as_table()


def test_heads_that_do_not_divide_the_width_are_begun_from(pruning, tmp_path, go):
    run = tmp_path / "run"
    go(pruning("heads(25%, within=layer, by=magnitude)"))
    begun = resolve(f"init='{run}' objective=mlm").encoder.layers
    assert {(layer.heads, layer.head_dim) for layer in begun} == {(3, 8)}


def test_a_pruning_run_resumes_to_the_same_bits(pruning, resumes):
    resumes(pruning(STEPWISE), 1, 3, 4, 8)


def test_what_is_removed_stays_removed(pruning, tmp_path, go):
    resolved, run = pruning(STEPWISE, "keep=9 save_every=1"), tmp_path / "run"
    go(resolved)
    gone = []
    for checkpoint in sorted((run / "checkpoints").glob("step-*")):
        removed = find_removed(resolved.encoder, load_file(checkpoint / WEIGHTS))
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
    inner, outer = part.inner, part.outer
    assert not any(g.any() for g in (inner.weight.grad[3], inner.bias.grad[3]))
    assert not outer.weight.grad[:, 3].any()
    assert inner.weight.grad[2].any()


@pytest.mark.parametrize("share", ["none", "all"])
@pytest.mark.parametrize("part", ["attention", "ffn"])
def test_gates_have_the_gradient_of_each_row(part, share, tiny):
    """|dL/dgate| of one row at a time, from what the output projection's weights say of it."""
    model = build(tiny(heads=4, ffn=24, share=share))
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


def test_low_scores_go_in_rounds_and_every_layer_keeps_one():
    scores = {0: [0.1, 0.2, 0.3], 1: [4.0, 5.0, 6.0]}
    plain = Heads(share=0.5, normalize=False)
    assert choose_by_score(plain, scores, {}, 0.5) == {0: [0, 1], 1: [0]}
    assert choose_by_score(plain, scores, {1: [2]}, 0.5) == {0: [0, 1], 1: [2]}
    normalized = Heads(share=0.5)
    assert choose_by_score(normalized, scores, {}, 0.5) == {0: [0, 1], 1: [0]}
    assert choose_by_score(normalized, scores, {}, 0.2) == {0: [0], 1: []}
    assert choose_by_score(Heads(share=0.4, within="layer"), scores, {}, 0.4) == {0: [0], 1: [0]}
    found = {step: Heads(share=0.5, every=0.25).share_gone(step, 7) for step in range(8)}
    assert {step: share for step, share in found.items() if share} == {0: 0.25, 3: 0.5}
    assert Heads(share=0.4, every=0.1).rounds == 4


def test_several_objectives_score_together(pruning, tmp_path, go):
    resolved = pruning(STEPWISE, "objective=mlm+0.5*sop recompute=on")
    go(resolved)
    removed = find_removed(resolved.encoder, dict(masked(resolved, tmp_path / "run").state_dict()))
    left = prune(resolved, removed).encoder
    assert sum(layer.heads for layer in left.layers) == 4


RELATIVE = "attention=relative(untie=true, segments=true) positions=none"


@pytest.mark.parametrize("settings", [
    "", "norm=pre", "share=all", "attention=local(4) positions=rotary", "positions=alibi",
    "positions=bucketed(32)", RELATIVE, "attention=disentangled positions=none",
])  # fmt: skip
def test_maps_are_what_attention_weighs_values_by(settings, tiny):
    model = build(tiny(settings, heads=4)).eval()
    mask = torch.arange(12) < torch.tensor([[12], [7]])
    reading = EncoderInputs(torch.randint(5, 100, (2, 12)), attention_mask=mask)
    assert_maps_weigh_values(model, reading)


def test_maps_of_two_streams_and_of_a_memory(tiny):
    model = build(tiny(f"{RELATIVE} heads=4 objective=plm")).eval()
    order = torch.stack([torch.randperm(12) for _ in range(2)])
    permutation = PermutationMask(order, order, torch.tensor([[3, 5], [0, 11]]))
    ids = torch.randint(5, 100, (2, 12))
    memory = Memory(torch.zeros(2, 2, 6, 32), torch.tensor(0))
    first = model.read_on(EncoderInputs(ids, memory=memory)).memory
    found = assert_maps_weigh_values(model, EncoderInputs(ids, None, memory=first))
    assert found[0].shape == (2, 4, 12, 18)
    found = assert_maps_weigh_values(model, EncoderInputs(ids, ids * 0, permutation=permutation))
    assert found[1].shape == (2, 4, 14, 12)
    # The query stream does not see what it predicts.
    assert found[1][0, :, 12, 3].abs().max() == 0


def assert_maps_weigh_values(model: Model, reading: EncoderInputs) -> list[torch.Tensor]:
    """The maps of all layers; with each, values add up to what the layer makes of them."""
    seen: list[torch.Tensor] = []
    values: list[torch.Tensor] = []
    hooks = [
        hook
        for part in model.encoder.attention.values()
        for hook in (
            part.output.register_forward_pre_hook(lambda _, x: seen.append(x[0])),
            part.register_forward_pre_hook(lambda part, x: values.append(part.project(*x).values)),
        )
    ]
    with torch.no_grad():
        last = model.read_on(reading).last
    for hook in hooks:
        hook.remove()
    again, found = see_maps(model, reading)
    assert torch.allclose(last, again.last, atol=1e-6)
    for mixed, value, map_bnqk in zip(seen, values, found, strict=True):
        value_bnkd = rearrange(value, "b k (n d) -> b n k d", n=4)
        expected = rearrange(map_bnqk @ value_bnkd, "b n q d -> b q (n d)")
        assert torch.allclose(expected, mixed, atol=1e-5)
        totals = map_bnqk.sum(-1)
        assert torch.all((totals - 1).abs().minimum(totals) < 1e-5)
    return found
