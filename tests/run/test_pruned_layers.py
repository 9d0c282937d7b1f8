"""Stages that remove whole layers."""

import json
from typing import Any

import pytest
import torch

import bertc
from bertc.base.diagnostics import SpecError
from bertc.check.facts.networks import network_of
from bertc.cost import estimate
from bertc.ir.changing.growth import FromRun
from bertc.ir.changing.pruning import Heads, Layers
from bertc.ir.network.norm import PreNorm
from bertc.ir.network.sharing import ShareAttention, ShareGroups
from bertc.ir.program.model import model_weights
from bertc.run.beginning.init_from import source_of
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.models.loading import load, read_model
from bertc.run.train.loop import train

KINDS: dict[str, tuple[Any, tuple[int, ...], dict[str, object]]] = {
    "a list": (Layers(which=(1, 2)), (0, 3), {"heads": (1, 2, 4, 2), "head_dim": 8}),
    "the highest": (Layers(which=0.5), (0, 1), {"norm": PreNorm()}),
    "the lowest": (Layers(which=0.25, by="bottom"), (1, 2, 3), {"ffn": (8, 16, 24, 32)}),
    "every other": (Layers(which=0.5, by="alternate"), (1, 3), {"share": ShareAttention()}),
    "of groups": (Layers(which=(0, 1, 2)), (3,), {"share": ShareGroups(groups=2)}),
}


@pytest.fixture
def shortened(tiny: Any) -> Any:
    """A program of four layers that loses some after four steps."""

    def make(kind: Any, **settings: object) -> Any:
        stages = {"whole": {"steps": 4}, "prune": {"prune": kind, "steps": 4}, "again": {}}
        stages["again"] = {"steps": 2}
        return tiny(stages=stages, **{"layers": 4, "eval_every": 20, **settings})

    return make


@pytest.mark.parametrize("name", KINDS)
def test_the_network_of_a_stage_has_the_layers_that_are_left(name, shortened, tmp_path, cache):
    kind, left, settings = KINDS[name]
    resolved, run = shortened(kind, **settings), tmp_path / "run"
    whole, prune, again = resolved.stages
    assert [stage.layers for stage in resolved.stages] == [4, len(left), len(left)]
    assert prune.encoder.layers == tuple(whole.encoder.layers[layer] for layer in left)
    train(resolved, run, cache=cache, quiet=True)
    program, tensors = read_model(run)
    assert program.encoder.depth == len(left)
    parameters = sum(weight.numel for weight in model_weights(resolved))
    assert sum(tensor.numel() for tensor in tensors.values()) == parameters
    assert estimate(resolved).parameters.total == parameters


def test_a_run_that_loses_layers_resumes_to_the_same_bits(shortened, resumes):
    resolved = shortened(Layers(which=(2, 0), every=0.25), save_every=20)
    assert [(stage.name, stage.layers) for stage in resolved.stages[1:3]] == [
        ("prune-3", 3), ("prune-2", 2),
    ]  # fmt: skip
    resumes(resolved, 3, 4, 6, 8)


def test_a_first_stage_removes_layers_of_init(shortened, tiny, tmp_path, cache):
    run = tmp_path / "run"
    train(tiny(layers=4, steps=2), run, cache=cache, quiet=True)
    stages = {"prune": {"prune": Layers(which=0.5, by="alternate"), "steps": 3}}
    further = tiny(layers=4, init=FromRun(path=str(run)), stages=stages)
    model, (_, old) = bertc.build(further), read_model(run)
    assert model.encoder.node.depth == 2
    assert f"init {run}: 2 of 4 layers left: 1, 3" in source_of(further).lines()
    for name, tensor in model.named_parameters():
        there = name.replace(".1.", ".3.").replace(".0.", ".1.")
        assert torch.equal(tensor, old[there])
    train(further, tmp_path / "further", cache=cache, quiet=True)
    again = evaluate_run(tmp_path / "further", cache=cache, quiet=True)
    assert again.evaluation is not None
    assert network_of(tmp_path / "further")["layers"] == 2
    config = json.loads((tmp_path / "further" / "model" / "config.json").read_text())
    assert config["num_hidden_layers"] == 2


def test_heads_and_layers_go_one_after_the_other(tiny, tmp_path, cache):
    stages = {
        "heads": {"prune": Heads(share=0.5, by="magnitude"), "steps": 2},
        "layers": {"prune": Layers(which=(0,)), "steps": 2},
    }
    resolved = tiny(layers=3, heads=4, stages=stages)
    train(resolved, tmp_path / "run", cache=cache, quiet=True)
    left = load(tmp_path / "run").resolved.encoder
    assert left.depth == 2
    assert sum(layer.heads for layer in left.layers) < 8


@pytest.mark.parametrize("by", ["top", "bottom", "alternate"])
def test_rounds_end_with_the_layers_that_go_at_once(by):
    left = []
    for every in ("", ", every=17%"):
        prune = f'stage "a" {{ }} stage "b" {{ prune=layers(50%, by={by}{every}) }}'
        *_, last = bertc.resolve(f"layers=6 ffn=[1, 2, 3, 4, 5, 6] {prune}").stages
        left.append([layer.ffn for layer in last.encoder.layers])
    assert left[0] == left[1]


def test_rounds_are_of_one_schedule_and_read_on():
    own = "prune=layers(50%, every=17%) steps=20 optimizer=adamw"
    rounds = bertc.resolve(f'layers=6 stage "a" {{ steps=5 }} stage "b" {{ {own} }}').stages[1:]
    assert [(each.first_step, each.steps) for each in rounds] == [(5, 6), (11, 7), (18, 7)]
    assert {(each.schedule_start, each.schedule_steps) for each in rounds} == {(5, 20)}
    assert [each.first_batch for each in rounds] == [0, 6, 13]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("prune=layers([4, 6])", "there is no layer 6: this network has 6 layers"),
        ("prune=layers([4, 4])", "layer 4 is named twice"),
        ("prune=layers(1%)", "0.01 of 6 layers is none"),
        ("prune=layers(99%)", "no layer would be left"),
        ("prune=layers(50%, every=20%) steps=2", "removes in 3 rounds, but the stage has 2 steps"),
        ("prune=layers(80%, by=alternate)", "every other one of 6 layers are 3, not 5"),
    ],
)
def test_layers_that_cannot_go_are_refused(text, told):
    with pytest.raises(SpecError, match=told):
        bertc.resolve(f'layers=6 stage "a" {{ }} stage "b" {{ {text} }}')


def test_layers_do_not_grow_back():
    text = 'layers=6 stage "a" { } stage "b" { prune=layers(50%) } stage "c" { layers=6 }'
    with pytest.raises(SpecError, match='"c" grows, but some of its network is gone since'):
        bertc.resolve(text)
    kept = bertc.resolve(text.replace("layers=6 }", "layers=3 }"))
    assert [stage.layers for stage in kept.stages] == [6, 3, 3]
