"""ESM's folders as they were published, and gradients of its networks."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file

import bertc
from bertc.base.diagnostics import DataError
from bertc.hub.families import family_named
from bertc.hub.keys import keys
from bertc.hub.leaving.exporting import export_model
from bertc.hub.networks import alone
from bertc.run.models.importing import import_model
from bertc.run.models.loading import load
from bertc.run.train.loop import train
from tests.hub.hf_models import ESM, ESMC, ROTARY_ESM, case, respell
from tests.hub.programs import Wordless
from tests.hub.test_round_trip import assert_outputs_agree, close, encoded, inputs, mlm_logits

NETWORKS = [case("EsmForMaskedLM", ROTARY_ESM), case("EsmcForMaskedLM", ESMC)]


@pytest.mark.parametrize("chosen", NETWORKS, ids=str)
def test_gradients_are_those_of_transformers(chosen, tmp_path):
    reference, ours = chosen.save(tmp_path), load(tmp_path)
    batch = inputs(reference, 16)
    read = batch["attention_mask"].bool()
    labels = torch.randint(5, 33, read.shape)[read]
    scores = mlm_logits(ours, encoded(ours, batch))[read], reference(**batch).logits[read]
    for of_all in scores:
        F.cross_entropy(of_all, labels).backward()
    family = family_named(reference.config.model_type)
    weights = dict(ours.named_parameters())
    theirs = {name: p.grad for name, p in reference.named_parameters() if p.grad is not None}
    for name, key in keys(family, ours.resolved.encoder, weights, {}).items():
        wanted = theirs.pop(f"{family.prefix}.{key}", None)
        wanted = theirs.pop(key) if wanted is None else wanted
        torch.testing.assert_close(weights[name].grad, wanted, atol=1e-6, rtol=1e-4)
    assert not theirs


def test_a_folder_of_2022_is_read_with_angles_as_they_were_trained(tmp_path):
    """Every layer had the rates of its angles, rounded to fp16, beside a table without a use."""
    case("EsmForMaskedLM", ROTARY_ESM, hidden_size=48).save(tmp_path / "new")
    tensors = load_file(tmp_path / "new" / "model.safetensors")
    rates = tensors.pop(next(name for name in tensors if "inv_freq" in name)).half().float()
    layers = [f"esm.encoder.layer.{n}.attention.self.rotary_embeddings" for n in range(2)]
    tensors |= {f"{layer}.inv_freq": rates.clone() for layer in layers}
    tensors |= {"esm.embeddings.position_embeddings.weight": torch.ones(9, 48)}
    tensors |= {"esm.embeddings.position_ids": torch.arange(9)[None]}
    tensors["lm_head.decoder.weight"] = tensors["esm.embeddings.word_embeddings.weight"].clone()
    (old := tmp_path / "old").mkdir()
    (old / "config.json").write_text((tmp_path / "new" / "config.json").read_text())
    torch.save(tensors, old / "pytorch_model.bin")
    reference, ours = transformers.EsmForMaskedLM.from_pretrained(old).eval(), load(old)
    assert ours.resolved.encoder.positions.rates == "fp16"
    batch = inputs(reference, 400)
    assert_outputs_agree(ours, reference, batch)
    assert not close(load(tmp_path / "new").encode(batch["input_ids"]), encoded(ours, batch))
    read = import_model(old)
    assert "left: esm.contact_head.regression.bias, " in " ".join(read.notes)
    export_model(read.resolved, read.tensors, Wordless(1), tmp_path / "out", strict=True)
    again = transformers.EsmForMaskedLM.from_pretrained(tmp_path / "out").eval()
    assert_outputs_agree(ours, again, batch)


def test_what_bertc_does_not_compute_is_refused_by_name(tmp_path):
    case("EsmForMaskedLM", ESM).save(tmp_path)
    respell(tmp_path, is_folding_model=True, position_embedding_type="relative_key", hidden_size=25)
    refused = pytest.raises(DataError, import_model, tmp_path).value
    for setting in ("is_folding_model = true", 'position_embedding_type = "relative_key"'):
        assert setting in refused.message


def test_an_arrangement_of_ones_own_leaves_as_esm_or_is_told_what_is_in_the_way(tmp_path):
    small = "layers=2 hidden=24 heads=3 ffn=40 vocab=words(33) steps=1"
    for spec, loads in (
        ("esm2-8m table=whole(dropped=9)", "EsmForMaskedLM"),
        ("esmc-300m residual=plain(2)", "EsmcForMaskedLM"),
    ):
        resolved = bertc.resolve(f"extends {spec} {small}")
        tensors = {n: p.detach() for n, p in bertc.model.build(resolved).named_parameters()}
        exported = export_model(resolved, tensors, Wordless(1), tmp_path / loads, strict=True)
        assert exported.architecture == loads
    resolved = bertc.resolve(f"extends esmc-300m {small}")
    with pytest.raises(DataError, match=r"residual=plain\(depth=30\) stands in the way") as error:
        export_model(alone(resolved), tensors, Wordless(1), tmp_path / "other", strict=True)
    assert "residual=plain(depth=2)" in error.value.help


def test_a_table_that_drops_another_token_than_the_mask_is_refused(tmp_path: Path):
    (tmp_path / "text.txt").write_text("M K V L A\n" * 50)
    data = f"data=files('{tmp_path}/text.txt', sentences=lines)"
    spec = f"layers=1 hidden=8 heads=1 seq=8 steps=1 vocab=words(16) {data}"
    with pytest.raises(DataError, match="drops the embedding of token 9, and the mask is 4") as e:
        train(bertc.resolve(f"{spec} table=whole(dropped=9)"), tmp_path / "run", quiet=True)
    assert e.value.help == "table=whole(dropped=4)"
    with pytest.raises(bertc.SpecError, match="E229: .* token 32, which is not the mask"):
        bertc.resolve("extends esm2-8m vocab=characters('ACGT')")
