"""Looking at heads: their scores, what they look at, and models without some of them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from einops import rearrange

from bertc.diagnostics import UsageError
from bertc.evaluation.without import LeftOut, heads_named, without_heads
from bertc.inference.attention_maps import Looks, looks, maps, pattern
from bertc.inference.evaluate import evaluate_run
from bertc.inference.heads import heads
from bertc.inference.predict import predict
from bertc.interop.pruned import removed_units, without_removed
from bertc.ir.learning.custom_task import Classify
from bertc.ir.learning.objective import Term
from bertc.ir.network.attention import (
    DisentangledAttention,
    LocalAttention,
    RelativeAttention,
)
from bertc.ir.network.norm import PreNorm
from bertc.ir.network.positions import (
    AlibiPositions,
    BucketedPositions,
    NoPositions,
    RotaryPositions,
)
from bertc.ir.network.sharing import ShareAll
from bertc.ir.terms.plm import Plm
from bertc.nn import EncoderInputs, Model, build
from bertc.nn.inputs import PermutationMask, nothing
from bertc.train.loop import train

CLS, SEP = 2, 3


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
def test_maps_are_what_attention_weighs_values_by(settings: Any, tiny: Any) -> None:
    model = build(tiny(heads=4, **settings)).eval()
    mask = torch.arange(12) < torch.tensor([[12], [7]])
    reading = EncoderInputs(torch.randint(5, 100, (2, 12)), attention_mask=mask)
    assert_maps_weigh_values(model, reading)


def test_maps_of_two_streams_and_of_a_memory(tiny: Any) -> None:
    relative = {"attention": RELATIVE, "positions": NoPositions(), "heads": 4}
    model = build(tiny(**relative, objective=(Term(objective=Plm()),))).eval()
    order = torch.stack([torch.randperm(12) for _ in range(2)])
    permutation = PermutationMask(order, order, torch.tensor([[3, 5], [0, 11]]))
    ids = torch.randint(5, 100, (2, 12))
    memory = nothing(2, 2, 6, 32, torch.float32, torch.device("cpu"))
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
    found: list[torch.Tensor] = []
    again = maps(model, reading, lambda layer, map_bnqk: found.append(map_bnqk)).last
    assert torch.allclose(last, again, atol=1e-6)
    for mixed, value, map_bnqk in zip(seen, values, found, strict=True):
        value_bnkd = rearrange(value, "b k (n d) -> b n k d", n=4)
        expected = rearrange(map_bnqk @ value_bnkd, "b n q d -> b q (n d)")
        assert torch.allclose(expected, mixed, atol=1e-5)
        totals = map_bnqk.sum(-1)
        assert torch.all((totals - 1).abs().minimum(totals) < 1e-5)
    return found


def shares(map_qk: torch.Tensor, ids: list[int], segments: list[int]) -> dict[str, float]:
    reading = EncoderInputs(torch.tensor([ids]), segment_ids=torch.tensor([segments]))
    return looks(map_qk[None, None], reading, CLS, SEP).means(len(ids))[0]


def test_patterns_of_maps_made_by_hand() -> None:
    ids, segments, size = [CLS, 7, 8, 9, SEP, 10, 11, SEP], [0, 0, 0, 0, 0, 1, 1, 1], 8
    diagonal, vertical = torch.eye(size), torch.zeros(size, size)
    vertical[:, 4] = 1
    same = torch.tensor(segments)[:, None] == torch.tensor(segments)
    block = same / same.sum(1, keepdim=True)
    strange = torch.zeros(size, size)
    for query in range(size):
        strange[query, 6 if query < 3 else 2 if query > 4 else 6] = 1
    named = {
        "diagonal": diagonal,
        "vertical": vertical,
        "block": block,
        "vertical and diagonal": 0.34 * diagonal.roll(1, 0) + 0.34 * vertical + 0.32 * strange,
        "heterogeneous": strange,
    }
    for name, map_qk in named.items():
        assert pattern(shares(map_qk, ids, segments)) == name
    means = shares(diagonal, ids, segments)
    assert (means["itself"], means["entropy"], means["distance"]) == (1, 0, 0)
    assert shares(vertical, ids, segments)["sep"] == 1
    assert Looks.__annotations__.keys() == means.keys()


def test_heads_of_a_task_and_a_model_without_one(
    tiny: Any, barn: Classify, tmp_path: Path, cache: Path
) -> None:
    run = tmp_path / "run"
    task = {"objective": (Term(objective=barn),), "heads": 4}
    train(tiny(**task), run, cache=cache, quiet=True)
    report = heads(run, cache=cache, quiet=True)
    assert (report.rows, len(report.heads)) == (16, 8)
    assert all(head.score > 0 for head in report.heads)
    assert all(0 <= head.cls + head.sep <= 1.001 for head in report.heads)
    on_file = heads(run, tmp_path / "dev.tsv", quiet=True)
    assert on_file.heads == report.heads
    assert len(json.loads(report.as_json())["heads"]) == 8
    assert "1.3" in report.as_table()
    without = evaluate_run(run, left_out=LeftOut("1.2"), quiet=True).evaluation
    assert 0 <= without.scores[barn.title]["dev"]["accuracy"] <= 1
    report.plot(tmp_path / "scores.png")
    assert (tmp_path / "scores.png").stat().st_size > 1000
    whole, less = (
        predict(run, tmp_path / "dev.tsv", left_out=LeftOut(w), quiet=True) for w in ("", "0.0")
    )
    assert whole.answers.probabilities != less.answers.probabilities


def test_heads_of_a_run_on_text(tiny: Any, corpus_file: Path, tmp_path: Path, cache: Path) -> None:
    run = tmp_path / "run"
    train(tiny(heads=4), run, cache=cache, quiet=True)
    report = heads(run, cache=cache, examples=16, quiet=True)
    assert (report.rows, len(report.heads)) == (16, 8)
    assert all(head.score > 0 for head in report.heads)
    assert len(heads(run, corpus_file, cache=cache, examples=8, quiet=True).heads) == 8
    whole, less = (
        evaluate_run(run, cache=cache, left_out=LeftOut(without), quiet=True).evaluation
        for without in ("", "0.1,1.0")
    )
    assert whole.loss != less.loss


def test_a_model_without_heads_is_one_that_lost_them(tiny: Any) -> None:
    model, ids = build(tiny(heads=4)).eval(), torch.randint(5, 100, (2, 12))
    before = model.encode(ids)
    with without_heads(model, "0.1, 1.0,1.3"):
        gone = model.encode(ids)
        removed = removed_units(model.encoder.node, dict(model.named_parameters()))
        resolved, left = without_removed(model.resolved, dict(model.named_parameters()))
    assert removed["attention"] == {0: [1], 1: [0, 3]}
    smaller = build(resolved)
    smaller.load_state_dict(left)
    assert torch.allclose(smaller.eval().encode(ids), gone, atol=1e-5)
    assert torch.equal(model.encode(ids), before)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("3", "'3' names no head"),
        ("5.0", "there is no head 5.0: the network has 2 layers"),
        ("1.9", "there is no head 1.9: layer 1 has 4 heads"),
    ],
)
def test_heads_that_are_not_there_are_refused(named: str, message: str, tiny: Any) -> None:
    with pytest.raises(UsageError, match=message):
        heads_named(named, build(tiny(heads=4), "meta"))


def test_heads_of_shared_layers_are_named_by_their_owner(tiny: Any) -> None:
    with pytest.raises(UsageError, match="layer 1 shares its attention with layer 0"):
        heads_named("1.0", build(tiny(heads=4, share=ShareAll()), "meta"))
