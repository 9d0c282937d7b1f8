"""Folders with a program's own classes: transformers loads them, equal to bertc's modules."""

import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
)

from bertc.api import resolve
from bertc.base.diagnostics import DataError
from bertc.model import build
from bertc.use.source.code_folder import export_code
from tests.hub.programs import tensors, words

pytestmark = pytest.mark.usefixtures("own_modules")
TINY = "layers=3 hidden=24 vocab=wordpiece(97) seq=16 steps=1 objective=mlm"
PROGRAMS = {
    "shared attention": "heads=3 share=attention E=16",
    "widths by layer": "heads=[3,2,1] head_dim=8 ffn=[40,24,16] norm=pre(function=tanh)",
    "a head without weights": "heads=3 head=linear(bias=false) norm=pre(last=false) segments=0",
    "pre-norm": "heads=3 norm=sandwich(function=rms) segments=0 activation=geglu positions=rotary",
}


@pytest.mark.parametrize("settings", PROGRAMS.values(), ids=PROGRAMS)
def test_a_folder_loads_as_its_program(settings, tmp_path):
    resolved = resolve(f"{TINY} {settings}")
    weights = tensors(resolved)
    exported = export_code(resolved, weights, words(), tmp_path / "m")
    assert exported.architecture.endswith("ForMaskedLM")
    model = build(resolved).eval()
    model.load_state_dict(weights, strict=False)
    network = AutoModelForMaskedLM.from_pretrained(tmp_path / "m", trust_remote_code=True)
    ids = torch.randint(5, 97, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    with torch.no_grad():
        wanted = model.encode(ids, None, mask)
        shown = network(ids, mask, output_hidden_states=True, output_attentions=True)
        plain = network(ids, mask)
    assert torch.allclose(shown.hidden_states[-1], wanted, atol=1e-5)
    assert torch.allclose(shown.logits, plain.logits, atol=1e-5)
    depth = len(shown.attentions)
    assert len(shown.hidden_states) == depth + 1
    embedded = network.get_input_embeddings()(ids)
    assert torch.allclose(network(inputs_embeds=embedded, attention_mask=mask).logits, plain.logits)


def test_a_folder_is_saved_resized_and_trained(tmp_path):
    resolved = resolve(f"{TINY} heads=3 share=attention E=16")
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
    classes(ids, labels=torch.tensor([0, 2])).loss.backward()
    assert all(weight.grad is not None for weight in classes.parameters())
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


def test_a_pooler_is_in_the_classes_that_read_it(tmp_path):
    resolved = resolve(f"{TINY} heads=3 pooler=true")
    weights = tensors(resolved)
    export_code(resolved, weights, words(), tmp_path / "m")
    scores, classes = (
        kind.from_pretrained(tmp_path / "m", trust_remote_code=True)
        for kind in (AutoModelForMaskedLM, AutoModelForSequenceClassification)
    )
    assert not any("pooler" in name for name in scores.state_dict())
    pooled = classes.state_dict()["model.encoder.pooler.weight"]
    assert torch.equal(pooled, weights["encoder.pooler.weight"])


def test_what_no_class_can_call_is_refused(tmp_path):
    decoding = "attention=disentangled(8,16) positions=none segments=0 head=transform(decoder=16)"
    resolved = resolve(f"{TINY} heads=3 {decoding}")
    with pytest.raises(DataError, match=r"stands in the way: no class of transformers"):
        export_code(resolved, tensors(resolved), words(), tmp_path / "m")
