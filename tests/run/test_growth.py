"""Stages that grow: what a deeper one begins with, and a run that is the same however resumed."""

from functools import partial

import pytest
import torch

from bertc.base.diagnostics import ResumeRefusedError
from bertc.ir.changing.growth import Tile
from bertc.ir.program.resolved import model_weights
from bertc.learn.optim.optimizers import zero_moments
from bertc.model import build
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.models.loading import read_model
from bertc.run.records.changes import refuse_another_program
from bertc.run.train.loop import train
from bertc.run.train.state import grow_model
from bertc.use.fill_mask import fill
from tests.run.conftest import same_run, same_tensors, stop_after

RTD = "objective=50*rtd+mlm generator=0.5"
STAGES = {"flat": {"layers": 1, "steps": 4}, "deep": {"layers": 2, "steps": 4}}


def staged(before, after):
    """Two stages of so many layers."""
    return f'stage "a" {{ layers={before} }} stage "b" {{ layers={after} }}'


def begun(resolved, seed=3):
    """The last stage's model and moments, begun from random ones of the stage before."""
    before, after = resolved.stages[-2:]
    old = build(resolved.as_in(before))
    draw = torch.Generator().manual_seed(seed)
    for parameter in old.parameters():
        parameter.data.normal_(std=0.1, generator=draw)
    table, parameters = model_weights(resolved.as_in(before)), dict(old.named_parameters())
    moments = {
        name: torch.rand(moment.shape, generator=draw)
        for name, moment in zero_moments(before.optimizer, table, parameters).items()
    }
    return old, moments, *grow_model(resolved, before, after, parameters, moments)


def layer(model, number):
    return {
        f"{part}.{name}": parameter
        for part in ("attention", "ffn")
        for name, parameter in getattr(model.encoder, part)[str(number)].named_parameters()
    }


@pytest.mark.parametrize(("grow", "before", "after", "sources"), [
    ("stack", 2, 4, [0, 1, 0, 1]), ("stack", 2, 5, [0, 1, 0, 1, 0]),
    ("interleave", 2, 4, [0, 0, 1, 1]), ("interleave", 2, 3, [0, 0, 1]),
    ("tile", 2, 3, [0, 1, 1]),
])  # fmt: skip
def test_a_layer_begins_as_an_exact_copy(tiny, grow, before, after, sources):
    old, _, new, moments = begun(tiny(f"{staged(before, after)} grow={grow}"))
    for number, source in enumerate(sources):
        theirs = layer(old, source)
        for name, parameter in layer(new, number).items():
            assert torch.equal(parameter, theirs[name])
            assert parameter.data_ptr() != theirs[name].data_ptr()
    assert torch.equal(new.encoder.embeddings.token.weight, old.encoder.embeddings.token.weight)
    same_tensors(*(dict(model.heads.named_parameters()) for model in (old, new)))
    assert not any(moment.any() for moment in moments.values())


def test_tile_takes_the_layers_that_modernbert_large_took():
    sources = [Tile().source(layer, 22, 28) for layer in range(28)]
    assert sources == [
        0, 1, 2, 2, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 12, 13, 13, 14, 15, 16, 16, 17, 18, 19, 20,
        20, 21,
    ]  # fmt: skip


def test_a_new_norm_and_moments_that_are_carried_along(tiny):
    _, _, new, _ = begun(tiny(f"{staged(2, 4)} norm=pre(first=false)"))
    copied, own = layer(new, 2), layer(new, 0)
    assert "attention.norm.weight" not in own
    assert (copied["attention.norm.weight"] == 1).all()
    assert torch.equal(copied["attention.query.weight"], own["attention.query.weight"])
    _, before, new, moments = begun(tiny(f"{staged(1, 2)} grow=stack(moments=carry)"))
    for name in dict(new.named_parameters()):
        source = name.replace("attention.1.", "attention.0.").replace("ffn.1.", "ffn.0.")
        assert torch.equal(moments[f"m.{name}"], before[f"m.{source}"])
        assert torch.equal(moments[f"v.{name}"], before[f"v.{source}"])


def test_identity_layers_change_nothing_at_first_and_learn(tiny):
    old, _, new, _ = begun(tiny(f"{staged(1, 3)} grow=identity norm=pre"))
    ids = torch.randint(5, 100, (2, 12))
    assert torch.equal(old.eval().encode(ids), new.eval().encode(ids))
    new.encode(ids).square().sum().backward()
    gradients = {name: p.grad for name, p in layer(new, 2).items()}
    assert gradients["attention.output.weight"].any()
    assert gradients["ffn.outer.weight"].any()


@pytest.mark.parametrize(
    ("share", "owners"), [("all", {0}), ("groups(2)", {0, 2}), ("ffn", {0, 1, 2, 3})]
)
def test_what_is_shared_has_one_owner(tiny, share, owners):
    program = tiny(f"{staged(2, 4)} grow=interleave(moments=carry) share={share}")
    old, _, new, moments = begun(program)
    assert {name[2:] for name in moments} == dict(new.named_parameters()).keys()
    assert {int(name) for name in new.encoder.attention} == owners
    if share == "all":
        same_tensors(dict(old.named_parameters()), dict(new.named_parameters()))
    if share == "groups(2)":  # layers 0 0 2 2 after 0 1: layer 2 is layer 1
        for name, parameter in layer(new, 2).items():
            assert torch.equal(parameter, layer(old, 1)[name])


def test_a_generator_grows_with_its_encoder(tiny):
    settings = f"{RTD} {staged(1, 2)}"
    resolved = tiny(settings)
    assert [len(stage.generator.layers) for stage in resolved.stages] == [1, 2]
    old, _, new, _ = begun(resolved)
    weights, before = dict(new.named_parameters()), dict(old.named_parameters())
    for network in ("encoder", "generator"):
        for layer in (0, 1):
            name = f"{network}.ffn.{{}}.outer.weight"
            assert torch.equal(weights[name.format(layer)], before[name.format(0)])
    fixed = tiny(settings, generator="network(0.5, layers=2)")
    assert [len(stage.generator.layers) for stage in fixed.stages] == [2, 2]
    _, _, kept, _ = begun(fixed)
    weights = dict(kept.named_parameters())
    assert not torch.equal(weights[name.format(1)], weights[name.format(0)])


@pytest.mark.parametrize("settings", [
    "grow=interleave(moments=carry) objective=mlm+sop embedding=16 recompute=on share=ffn",
    "grow=identity norm=pre pack=true optimizer=lamb(1e-2, warmup=2, bias_correction=true)",
    f"{RTD} optimizer=muon(1e-2, warmup=2)",
    "objective=clm memory=16 attention=relative positions=none",
], ids=["carry", "identity", "electra", "memory"])  # fmt: skip
def test_a_run_that_grows_is_the_same_however_resumed(tiny, tmp_path, monkeypatch, settings, cache):
    resolved = tiny(f"{settings} save_every=2 eval_every=3", stages=STAGES)
    options = {"cache": cache, "quiet": True}
    train(resolved, tmp_path / "straight", **options)
    run = tmp_path / "stopped"
    for step in (2, 4, 6):  # in the first stage, at the boundary, in the second stage
        stop_after(monkeypatch, step, partial(train, resolved, run, resume=step > 2, **options))
        # Until it goes on, the network is as deep as the checkpoint.
        depth = 1 if step <= 4 else 2
        reached, tensors = read_model(run)
        assert len(reached.encoder.layers) == depth
        own = depth == 2 and "share=ffn" not in settings
        assert ("encoder.ffn.1.norm.weight" in tensors) == own
        assert evaluate_run(run, **options).step == step
        assert fill(run, "hens cackle in the [MASK]").masks
    train(resolved, run, resume=True, **options)
    same_run(tmp_path / "straight", run)


def test_the_count_of_updates_begins_again_and_what_changed_is_named(tiny):
    grown = tiny(f'{staged(1, 2)} stage "c" {{ seq=16 }}')
    assert [stage.counted_from for stage in grown.stages] == [0, 12, 12]
    other = {"a": {}, "b": {"optimizer": "muon"}, "c": {"optimizer": "muon"}, "d": {}}
    assert [stage.counted_from for stage in tiny(stages=other).stages] == [0, 12, 12, 36]
    old = tiny(stages=STAGES)
    other = {**STAGES, "deep": {"layers": 3, "steps": 4, "grow": "interleave"}}
    refused = pytest.raises(ResumeRefusedError, refuse_another_program, old, tiny(stages=other))
    assert "deep.layers: 2 -> 3" in refused.value.message
    assert "deep.grow: stack -> interleave" in refused.value.message
    same = {**STAGES, "deep": {"layers": 1, "steps": 4}}
    with pytest.raises(ResumeRefusedError, match="deep.layers: 2 -> 1"):
        refuse_another_program(old, tiny(stages=same))
