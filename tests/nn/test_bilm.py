"""A BiLSTM that predicts next tokens and those before (ELMo): its losses, counts, runs, uses."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map
from torch.utils.flop_counter import FlopCounterMode

from bertc.api import points, resolve
from bertc.diagnostics import SpecError, StoppedError
from bertc.estimate import estimate
from bertc.inference.fill_mask import fill
from bertc.inference.preview import preview
from bertc.interop.loading import load
from bertc.nn import EncoderInputs, build
from bertc.nn.bilstm import BiLstm
from bertc.objectives import corrupt
from bertc.objectives.targets import MicroBatch
from bertc.step.feed import to_inputs
from bertc.step.objective import make_objective
from bertc.step.synthetic import RandomText, unlearned_vocab
from bertc.train import finish
from bertc.train.loop import train
from tests.net.programs import FARM
from tests.nn.test_bilstm import spec
from tests.train.test_training import stop_after

BODY = "bilstm(10, layers=2, directions=apart)"
TOY = "vocab=100 embedding=12 seq=16 batch=3 steps=5 dropout=0 precision=fp32 objective=clm"
BODIES = [BODY, "bilstm(10)", "bilstm(10, layers=3, directions=apart, project=7)"]
HEADS = ["head=linear", "head=transform"]


def toy(settings: str) -> tuple[Any, MicroBatch]:
    resolved = resolve(f"{settings} {TOY}", ["microbatch=3"])
    stage = resolved.stages[0]
    inputs = to_inputs(RandomText(stage, 100).train(0), torch.device("cpu"))
    inputs = inputs._replace(following=torch.tensor([7, -1, 9]))  # the text after two of the rows
    return resolved, corrupt(stage, inputs, unlearned_vocab(100, torch.device("cpu")), 1)


def one_way(body: BiLstm, x_bsi: torch.Tensor, side: str) -> torch.Tensor:
    """The states of one direction, by cells, from the tensors by name."""
    for layer in body.recurrence:
        own = layer.get_submodule(side)
        cell = torch.nn.LSTMCell(x_bsi.shape[2], body.node.lstm.hidden)
        weights = {
            f"{leaf}_{there}": own.get_parameter(f"{here}.{leaf}")
            for here, there in (("input", "ih"), ("state", "hh"))
            for leaf in ("weight", "bias")
        }
        state = (x_bsi.new_zeros(len(x_bsi), cell.hidden_size),) * 2
        found = []
        for x_bi in x_bsi.unbind(1):
            state = torch.func.functional_call(cell, weights, (x_bi, state))
            found.append(state[0])
        x_bsi = torch.stack(found, dim=1)
    return x_bsi


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("setting", BODIES)
def test_the_loss_is_that_of_two_language_models(setting: str, head: str) -> None:
    resolved, batch = toy(f"body={setting} {head}")
    model = build(resolved)
    body = model.encoder
    assert isinstance(body, BiLstm)
    loss, statistics, _ = make_objective(model, resolved.stages[0], compiled=False)(
        batch, torch.ones(1)
    )
    ids_bs, table_ve = batch.originals, body.tokens.weight
    x_bsi = body.tokens(ids_bs)
    if body.node.lstm.project:
        x_bsi = body.embeddings["project"](x_bsi)
    right = one_way(body, x_bsi, "right")[:, :-1]
    left = one_way(body, x_bsi.flip(1), "left").flip(1)[:, 1:]
    module = model.heads["clm"]
    wanted = sum(
        torch.nn.functional.cross_entropy(
            module(states.flatten(0, 1)) @ table_ve.T + module.bias,
            told.flatten(),
            reduction="sum",
        )
        for states, told in ((right, ids_bs[:, 1:]), (left, ids_bs[:, :-1]))
    )
    last = module(one_way(body, x_bsi, "right")[[0, 2], -1]) @ table_ve.T + module.bias
    after = torch.tensor([7, 9])
    wanted = wanted + torch.nn.functional.cross_entropy(last, after, reduction="sum")
    torch.testing.assert_close(loss, wanted, rtol=1e-5, atol=1e-5)
    (ours,) = torch.autograd.grad(loss, [table_ve], retain_graph=True)
    (theirs,) = torch.autograd.grad(wanted, [table_ve])
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_no_direction_sees_what_it_predicts() -> None:
    resolved, _ = toy(f"body={BODY}")
    body = build(resolved).encoder.eval()
    ids_bs = torch.arange(5, 17)[None]
    other_bs = ids_bs.clone()
    other_bs[0, 6] = 50
    one, other = (body(EncoderInputs(each), torch.float32).last[0] for each in (ids_bs, other_bs))
    same = torch.isclose(one, other, atol=1e-7)
    assert same[:6, :10].all()
    assert same[7:, 10:].all()
    assert not same[6:, :10].all(1).any()
    assert not same[:7, 10:].all(1).any()


@pytest.mark.parametrize("setting", BODIES)
def test_parameters_and_flops_are_those_that_are_built(setting: str) -> None:
    resolved, batch = toy(f"body={setting}")
    model, told = build(resolved, device="meta"), estimate(resolved, "cpu")
    assert told.parameters.total == sum(each.numel() for each in model.parameters())
    objective = make_objective(model, resolved.stages[0], compiled=False)
    with torch.device("meta"), FlopCounterMode(display=False) as counter:
        objective(tree_map(lambda x: None if x is None else x.to("meta"), batch), torch.ones(1))
    assert counter.get_total_flops() / 3 == pytest.approx(
        told.stages[0].flops.forward_per_example, rel=1e-3
    )


def test_it_learns_goes_on_and_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FARM)
    monkeypatch.setattr(finish, "plot", lambda lines, path: path.touch())
    (resolved,) = points(spec("mlm", BODY, objective="clm", dropout="0.1"))
    cache = tmp_path / "cache"
    train(resolved, tmp_path / "straight", cache=cache, quiet=True)
    with pytest.raises(StoppedError):
        stop_after(
            monkeypatch, 2, lambda: train(resolved, tmp_path / "run", cache=cache, quiet=True)
        )
    train(resolved, tmp_path / "run", cache=cache, quiet=True, resume=True)
    one, other = (load(tmp_path / each).state_dict() for each in ("straight", "run"))
    assert all(torch.equal(one[each], other[each]) for each in one)
    lines = [json.loads(x) for x in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["losses"]["clm"] < lines[0]["losses"]["clm"]
    (mask,) = fill(tmp_path / "run", "a hen and", top=2).masks
    assert len(mask) == 2
    shown = preview(resolved, 2, color=False, cache=cache)
    assert "tokens predicted from those before, " in shown
    assert " from those after" in shown
    begun = f'init="{tmp_path}/run" task=classify(labels=[a, b], examples=9) steps=2'
    assert resolve(begun).encoder.settings()["body"] == resolved.encoder.settings()["body"]


def test_layers_that_mix_directions_are_refused_with_a_way_out() -> None:
    with pytest.raises(SpecError) as refused:
        resolve("body=bilstm(150, layers=2) objective=clm")
    (first,) = refused.value.diagnostics
    assert (first.code, first.help) == ("E340", "directions=apart")
