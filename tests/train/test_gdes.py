"""DeBERTa-v3's pretraining: shared tables without a tug of war, and its detector's head."""

import pytest
import torch

from bertc.api import resolve
from bertc.estimate import estimate
from bertc.interop.networks import parted, summed, tensors_alone
from bertc.ir.program.model import model_weights
from bertc.nn import EncoderInputs, Model, build
from bertc.nn.heads import Detector

SPEC = """layers=2 hidden=32 heads=4 vocab=300 seq=32 segments=0 norm=post(1e-7) dropout=0
attention=disentangled(16, 64) objective=rtd(add_cls=true)*10+mlm(replace=100/0/0)
generator=network(1, layers=1, tie=gdes)"""
TABLE = "embeddings.token.weight"
GOLDEN = {"xsmall": 148_993, "small": 592_897, "base": 592_897, "large": 1_052_673}
WIDTHS = {"xsmall": 384, "small": 768, "base": 768, "large": 1024}


def made() -> Model:
    model = build(resolve(SPEC))
    for parameter in model.parameters():
        torch.nn.init.normal_(
            parameter, std=0.3, generator=torch.Generator().manual_seed(parameter.numel())
        )
    return model


def test_the_difference_begins_at_zero_and_has_the_only_gradient() -> None:
    model = build(resolve(SPEC))
    own, other = (model.network(name).embeddings.token for name in ("encoder", "generator"))
    assert not own.weight.any()
    assert other.weight.any()
    ids = torch.arange(5, 21)[None]
    assert torch.equal(own(ids), other(ids))
    model.read(EncoderInputs(ids)).square().sum().backward()
    assert other.weight.grad is None
    assert own.weight.grad[5:21].abs().sum(1).min() > 0


def test_the_encoder_alone_has_the_sum() -> None:
    model = made()
    tensors = {name: tensor.detach() for name, tensor in model.named_parameters()}
    alone = tensors_alone(model.resolved, tensors)
    both = tensors[f"encoder.{TABLE}"] + tensors[f"generator.{TABLE}"]
    assert torch.equal(alone[f"encoder.{TABLE}"], both)
    of_generator = tensors_alone(model.resolved, tensors, "generator")
    assert torch.equal(of_generator[f"encoder.{TABLE}"], tensors[f"generator.{TABLE}"])
    again = parted(model.resolved, summed(model.resolved, tensors))
    torch.testing.assert_close(again, tensors)


def test_both_tables_are_counted() -> None:
    resolved = resolve(SPEC)
    counted = estimate(resolved).stages[0].parameters
    assert counted.total == sum(weight.numel for weight in model_weights(resolved))
    assert counted.by_part["embeddings"] == 2 * (300 * 32 + 2 * 32)


@pytest.mark.parametrize("size", GOLDEN)
def test_the_detector_has_the_published_size(size: str) -> None:
    width = WIDTHS[size]
    spec = SPEC.replace("hidden=32", f"hidden={width}")
    weights = model_weights(resolve(spec))
    assert sum(w.numel for w in weights if w.name.startswith("heads.rtd.")) == GOLDEN[size]


@torch.no_grad()
def test_the_detector_adds_the_first_state() -> None:
    head = made().heads["rtd"]
    assert isinstance(head, Detector)
    x = torch.randn(2, 7, 32)
    summed_up = torch.nn.functional.layer_norm(
        x + x[:, :1], (32,), head.norm.weight, head.norm.bias, 1e-7
    )
    dense = torch.nn.functional.gelu(head.dense(summed_up))
    expected = torch.nn.functional.linear(dense, head.weight, head.bias)[..., 0]
    torch.testing.assert_close(head(x), expected)
