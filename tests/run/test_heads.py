"""What is inside a run: attention maps, and models without some of their heads."""

import json

import pytest
import torch
from einops import rearrange
from typer.testing import CliRunner

from bertc.cli.app import app
from bertc.hub.leaving.pruned import remove_units, removed_units
from bertc.ir.learning.objective import Term
from bertc.ir.network.attention import DisentangledAttention, LocalAttention, RelativeAttention
from bertc.ir.network.norm import PreNorm
from bertc.ir.network.positions import (
    AlibiPositions,
    BucketedPositions,
    NoPositions,
    RotaryPositions,
)
from bertc.ir.network.sharing import ShareAll
from bertc.ir.terms.plm import Plm
from bertc.model import EncoderInputs, Model, build
from bertc.model.inputs import Memory, PermutationMask
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.evaluation.without import without_heads
from bertc.run.train.loop import train
from bertc.use.attention import see_maps

RELATIVE = RelativeAttention(untie=True, segments=True)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"norm": PreNorm()},
        {"share": ShareAll()},
        {"attention": LocalAttention(window=4), "positions": RotaryPositions()},
        {"positions": AlibiPositions()},
        {"positions": BucketedPositions(rows=32)},
        {"attention": RELATIVE, "positions": NoPositions()},
        {"attention": DisentangledAttention(), "positions": NoPositions()},
    ],
)
def test_maps_are_what_attention_weighs_values_by(settings, tiny):
    model = build(tiny(heads=4, **settings)).eval()
    mask = torch.arange(12) < torch.tensor([[12], [7]])
    reading = EncoderInputs(torch.randint(5, 100, (2, 12)), attention_mask=mask)
    assert_maps_weigh_values(model, reading)


def test_maps_of_two_streams_and_of_a_memory(tiny):
    relative = {"attention": RELATIVE, "positions": NoPositions(), "heads": 4}
    model = build(tiny(**relative, objective=(Term(objective=Plm()),))).eval()
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


def test_the_command_shows_what_is_inside_a_run(tiny, barn, tmp_path, cache):
    run = tmp_path / "run"
    train(tiny(objective=(Term(objective=barn),), heads=4), run, cache=cache, quiet=True)

    def inspect(what: str, *options: str, exit_code: int = 0) -> str:
        answer = CliRunner().invoke(app, ["inspect", what, str(run), *options])
        assert answer.exit_code == exit_code, answer.output
        progress = f"evaluating {run} without each head ...\n"
        assert answer.stderr == progress * (what == "heads" and not exit_code)
        return answer.stdout if not exit_code else str(answer.exception)

    of_heads = json.loads(inspect("heads", "--json"))
    names = [f"{layer}.{head}" for layer in range(2) for head in range(4)]
    assert [*of_heads["without"]] == names
    less = evaluate_run(run, without=[(1, 2)], quiet=True).evaluation
    assert less is not None
    assert of_heads["without"]["1.2"] == less.scores[barn.title]["dev"]["accuracy"]
    table = inspect("heads", "--examples", "3").splitlines()
    assert table[0].endswith("its change without each head")
    assert [line.split()[0] for line in table[1:]] == ["head", *names]

    page = tmp_path / "a.html"
    inspect("attention", "--text", "hens lay", "--pair", "cows", "-o", str(page))
    assert "heatmap" in page.read_text()
    refused = {
        ("heads", "--text", "hens"): "--text has no effect on heads",
        ("attention",): "attention is of a text",
    }
    for words, message in refused.items():
        assert message in inspect(*words, exit_code=1)


def test_a_model_without_heads_is_one_that_lost_them(tiny):
    model, ids = build(tiny(heads=4)).eval(), torch.randint(5, 100, (2, 12))
    before = model.encode(ids)
    with without_heads(model, [(0, 1), (1, 0), (1, 3)]):
        gone = model.encode(ids)
        removed = removed_units(model.encoder.node, dict(model.named_parameters()))
        resolved, left = remove_units(model.resolved, dict(model.named_parameters()))
    assert removed["attention"] == {0: [1], 1: [0, 3]}
    smaller = build(resolved)
    smaller.load_state_dict(left)
    assert torch.allclose(smaller.eval().encode(ids), gone, atol=1e-5)
    assert torch.equal(model.encode(ids), before)
