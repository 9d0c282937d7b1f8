"""Looking at heads: their scores, what they look at, and models without some of them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from einops import rearrange

from bertc.diagnostics import DataError, UsageError
from bertc.evaluation.without import LeftOut, heads_named, without_heads
from bertc.inference.attention_maps import Looks, looks, maps, pattern
from bertc.inference.evaluate import evaluate_run
from bertc.inference.heads import heads
from bertc.inference.predict import predict
from bertc.inference.worth import worth_of_heads
from bertc.interop.pruned import removed_units, without_removed
from bertc.ir.learning.custom_task import Classify
from bertc.ir.learning.objective import Term
from bertc.ir.network.attention import RelativeAttention
from bertc.ir.network.norm import PreNorm
from bertc.ir.network.positions import NoPositions
from bertc.ir.network.sharing import ShareAll
from bertc.nn import EncoderInputs, build
from bertc.train.loop import train

CLS, SEP = 2, 3


@pytest.mark.parametrize("settings", [{}, {"norm": PreNorm()}, {"share": ShareAll()}])
def test_maps_are_what_attention_weighs_values_by(settings: Any, tiny: Any) -> None:
    model = build(tiny(heads=4, **settings)).eval()
    ids = torch.randint(5, 100, (2, 12))
    mask = torch.arange(12) < torch.tensor([[12], [7]])
    reading = EncoderInputs(ids, attention_mask=mask)
    seen: list[torch.Tensor] = []
    outputs = [model.encoder.attention[name].output for name in model.encoder.attention]
    hooks = [o.register_forward_pre_hook(lambda _, x: seen.append(x[0])) for o in outputs]
    model.read(reading)
    for hook in hooks:
        hook.remove()
    mixed, first = seen[0], model.encoder.attention["0"]
    from bertc.ir.network.wanted import Wanted

    x = model.read_on(reading, "encoder", Wanted(states=(0,))).by_layer[0]
    x = first.norm(x) if model.encoder.norm is not None else x
    value = rearrange(first.value(x), "b s (n d) -> b n s d", n=4)
    map_bnqk = next(iter(maps(model, reading)))
    expected = rearrange(map_bnqk @ value, "b n s d -> b s (n d)")
    assert torch.allclose(expected[mask], mixed[mask], atol=1e-5)


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


def test_heads_of_a_task_and_what_each_is_worth(tiny: Any, barn: Classify, tmp_path: Path) -> None:
    run, cache = tmp_path / "run", tmp_path / "cache"
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
    worth = worth_of_heads(run, quiet=True)
    without = evaluate_run(run, left_out=LeftOut("1.2"), quiet=True).evaluation
    assert worth.without[1][2] == without.scores[barn.title]["dev"]["accuracy"]
    assert "head 3" in worth.as_table()
    for picture, findings in {"scores.png": report, "worth.png": worth}.items():
        findings.plot(tmp_path / picture)
        assert (tmp_path / picture).stat().st_size > 1000
    whole, less = (
        predict(run, tmp_path / "dev.tsv", left_out=LeftOut(w), quiet=True) for w in ("", "0.0")
    )
    assert whole.answers.probabilities != less.answers.probabilities


def test_heads_of_a_run_on_text(tiny: Any, corpus_file: Path, tmp_path: Path) -> None:
    run, cache = tmp_path / "run", tmp_path / "cache"
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


def test_maps_by_distance_are_refused(tiny: Any) -> None:
    model = build(tiny(attention=RelativeAttention(), positions=NoPositions()))
    with pytest.raises(DataError, match="weighs distances"):
        next(maps(model, EncoderInputs(torch.randint(5, 100, (2, 12)))))
