"""DeBERTa-v3's pretraining: shared tables without a tug of war, and its detector's head."""

import pytest
import torch
import transformers

from bertc.api import resolve
from bertc.hub.exporting import export_model
from bertc.hub.networks import parted, summed, tensors_alone
from bertc.ir.program.model import model_weights
from bertc.model import EncoderInputs, build
from bertc.model.heads import Detector
from tests.hub.programs import Wordless
from tests.model.material import drawn

SPEC = """layers=2 hidden=32 heads=4 vocab=300 seq=32 segments=0 norm=post(1e-7) dropout=0
attention=disentangled(16, 64) objective=rtd(add_cls=true)*10+mlm(replace=100/0/0)
generator=network(1, layers=1, tie=gdes)"""
TABLE = "embeddings.token.weight"
GOLDEN = {"xsmall": 148_993, "small": 592_897, "base": 592_897, "large": 1_052_673}
WIDTHS = {"xsmall": 384, "small": 768, "base": 768, "large": 1024}


def test_the_difference_begins_at_zero_and_has_the_only_gradient():
    model = build(resolve(SPEC))
    own, other = (model.network(name).embeddings.token for name in ("encoder", "generator"))
    assert not own.weight.any()
    assert other.weight.any()
    ids = torch.arange(5, 21)[None]
    assert torch.equal(own(ids), other(ids))
    model.read(EncoderInputs(ids)).square().sum().backward()
    assert other.weight.grad is None
    assert own.weight.grad[5:21].abs().sum(1).min() > 0


def test_the_encoder_alone_has_the_sum():
    model = drawn(resolve(SPEC), 0.3)
    tensors = {name: tensor.detach() for name, tensor in model.named_parameters()}
    alone = tensors_alone(model.resolved, tensors)
    both = tensors[f"encoder.{TABLE}"] + tensors[f"generator.{TABLE}"]
    assert torch.equal(alone[f"encoder.{TABLE}"], both)
    of_generator = tensors_alone(model.resolved, tensors, "generator")
    assert torch.equal(of_generator[f"encoder.{TABLE}"], tensors[f"generator.{TABLE}"])
    again = parted(model.resolved, summed(model.resolved, tensors))
    torch.testing.assert_close(again, tensors)


@pytest.mark.parametrize("size", GOLDEN)
def test_the_detector_has_the_published_size(size):
    width = WIDTHS[size]
    spec = SPEC.replace("hidden=32", f"hidden={width}")
    weights = model_weights(resolve(spec))
    assert sum(w.numel for w in weights if w.name.startswith("heads.rtd.")) == GOLDEN[size]


@torch.no_grad()
def test_the_detector_adds_the_first_state():
    head = drawn(resolve(SPEC), 0.3).heads["rtd"]
    assert isinstance(head, Detector)
    x = torch.randn(2, 7, 32)
    summed_up = torch.nn.functional.layer_norm(
        x + x[:, :1], (32,), head.norm.weight, head.norm.bias, 1e-7
    )
    dense = torch.nn.functional.gelu(head.dense(summed_up))
    expected = torch.nn.functional.linear(dense, head.weight, head.bias)[..., 0]
    torch.testing.assert_close(head(x), expected)


def test_the_two_are_exported_each_whole(tmp_path):
    model = drawn(resolve(SPEC), 0.3)
    tensors = {name: tensor.detach() for name, tensor in model.named_parameters()}
    exported = export_model(model.resolved, tensors, Wordless(0), tmp_path)
    assert exported.architecture == "DebertaV2Model"
    both = tensors[f"encoder.{TABLE}"] + tensors[f"generator.{TABLE}"]
    mask = torch.arange(20) < torch.tensor([[20], [13]])
    ids = torch.randint(5, 300, (2, 20)) * mask
    with torch.no_grad():
        for name, cls, table in (
            ("encoder", "DebertaV2Model", both),
            ("generator", "DebertaV2ForMaskedLM", tensors[f"generator.{TABLE}"]),
        ):
            folder = tmp_path if name == "encoder" else tmp_path / name
            theirs, info = getattr(transformers, cls).from_pretrained(
                folder, output_loading_info=True
            )
            assert not any(info.values()), info
            base = theirs.eval().base_model
            assert torch.equal(base.embeddings.word_embeddings.weight, table)
            states = base(ids, mask.long()).last_hidden_state
            found = model.read(EncoderInputs(ids, attention_mask=mask), name)
            torch.testing.assert_close(found[mask], states[mask], atol=1e-4, rtol=1e-4)
    assert any("rtd" in note for note in exported.notes)
