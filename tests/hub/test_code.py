"""Folders with a program's own classes: transformers loads them, equal to bertc's modules."""

import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    modeling_layers,
)

from bertc.api import resolve
from bertc.use.source.code_folder import export_code
from tests.hub.programs import leaves_with_code, tensors, words

pytestmark = pytest.mark.usefixtures("own_modules")
TINY = "layers=3 hidden=24 vocab=wordpiece(97) seq=16 steps=1 objective=mlm"
PROGRAMS = {
    "widths by layer": "heads=[3,2,1] head_dim=8 ffn=[40,24,16] norm=pre(function=tanh)",
    "a head without weights": "heads=3 head=linear(bias=false) norm=pre(last=false) segments=0",
    "pre-norm": "heads=3 norm=sandwich(function=rms) segments=0 activation=geglu positions=rotary",
}


@pytest.mark.parametrize("settings", PROGRAMS.values(), ids=PROGRAMS)
def test_a_folder_loads_as_its_program(settings, tmp_path):
    assert leaves_with_code(resolve(f"{TINY} {settings}"), tmp_path / "m")


def test_a_folder_is_saved_resized_and_trained(tmp_path):
    resolved = resolve(f"{TINY} heads=3 share=attention E=16 pooler=true")
    export_code(resolved, tensors(resolved), words(), tmp_path / "m")
    network = AutoModelForMaskedLM.from_pretrained(tmp_path / "m", trust_remote_code=True)
    network.resize_token_embeddings(101)
    network.save_pretrained(tmp_path / "again")
    again = AutoModelForMaskedLM.from_pretrained(tmp_path / "again", trust_remote_code=True)
    ids = torch.randint(5, 97, (2, 9))
    assert torch.equal(again(ids).logits, network.eval()(ids).logits)
    assert again(ids).logits.shape == (2, 9, 101)
    classes = AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "m", trust_remote_code=True, num_labels=3
    )
    classes.train()
    classes.activation_checkpointing_enable()
    assert modeling_layers.GradientCheckpointingLayer in type(classes.model.encoder.ffn[0]).__mro__
    classes(ids, labels=torch.tensor([0, 2])).loss.backward()
    assert all(weight.grad is not None for weight in classes.parameters())
    assert not any("pooler" in name for name in network.state_dict()), "it reads none"
    base = AutoModel.from_pretrained(tmp_path / "again", trust_remote_code=True)
    assert base(ids).pooler_output.shape == (2, resolved.encoder.hidden)


@pytest.mark.parametrize("positions", ["rotary", "alibi", "rotary attention=local(4)"])
def test_causal_rows_may_be_padded_in_front(positions, tmp_path):
    causal = TINY.replace("mlm", "clm")
    resolved = resolve(f"{causal} heads=3 segments=0 positions={positions}")
    export_code(resolved, tensors(resolved), words(), tmp_path / "m")
    ids = torch.randint(5, 97, (2, 9))
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    for way in ("sdpa", "eager"):
        network = AutoModel.from_pretrained(
            tmp_path / "m", trust_remote_code=True, attn_implementation=way
        )
        padded = network(ids, mask).last_hidden_state
        alone = network(ids[:1, 4:]).last_hidden_state
        assert torch.allclose(padded[:1, 4:], alone, atol=1e-5)
        assert not padded.isnan().any()


def test_losses_are_those_that_trainer_expects(tmp_path):
    resolved = resolve(f"{TINY.replace('mlm', 'clm')} heads=3")
    export_code(resolved, tensors(resolved), words(), tmp_path / "m")
    network = AutoModelForCausalLM.from_pretrained(tmp_path / "m", trust_remote_code=True).eval()
    ids = torch.randint(5, 97, (2, 9))
    mean, total = network(ids, labels=ids).loss, network(ids, labels=ids, num_items_in_batch=4).loss
    assert torch.allclose(total, mean * 16 / 4)
    moved = torch.nn.functional.pad(ids[:, 1:], (0, 1), value=-100)
    assert torch.allclose(network(ids, labels=ids * 0, shift_labels=moved).loss, mean)
    classes = AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "m", trust_remote_code=True
    )
    assert network.accepts_loss_kwargs
    assert not classes.accepts_loss_kwargs


def test_labels_of_mntp_are_at_their_own_places(tmp_path):
    resolved = resolve(f"{TINY.replace('mlm', 'mntp')} heads=3")
    export_code(resolved, tensors(resolved), words(), tmp_path / "m")
    network = AutoModelForMaskedLM.from_pretrained(tmp_path / "m", trust_remote_code=True).eval()
    assert "the one after it" in type(network).__doc__
    ids = torch.randint(5, 97, (2, 9))
    shown = network(ids, labels=torch.where(torch.arange(9) == 4, ids, -100))
    wanted = torch.nn.functional.cross_entropy(shown.logits[:, 3], ids[:, 4])
    assert torch.allclose(shown.loss, wanted)
