"""Two networks in one run: trained together or in turn, their tables shared or not, exported."""

import shutil

import pytest
import torch
import transformers

from bertc.api import resolve
from bertc.hub.leaving.exporting import export_model
from bertc.hub.networks import add_tables, tensors_alone
from bertc.ir.program.resolved import model_weights
from bertc.model import EncoderInputs, build
from bertc.model.heads import Detector
from bertc.run.models.loading import load, read_model
from bertc.run.models.runs import import_run
from bertc.use.fill_mask import fill
from tests.hub.programs import Wordless
from tests.model.material import drawn
from tests.run.conftest import final_tensors, lines, same_tensors

MASKS = "mlm(replace=85/0/15, distinct=false)"
ELECTRA = f"objective=50*rtd+{MASKS}"
HALF = f"{ELECTRA} generator=0.5"
RUNS = {
    "electra": HALF,
    "shared and factorised": f"{HALF} share=all embedding=16 norm=pre microbatch=2",
    "spans and pairs": "generator=network(layers=1, hidden=16, tie=none) "
    "objective=rtd(over=masked)+mlm(unit=span)+sbo+sop",
    "gdes, packed": "generator=network(0.5, tie=gdes) microbatch=4 pack=true seq=64 "
    f"objective=10*rtd(add_cls=true)+{MASKS}",
    "unigram": "generator=unigram objective=rtd",
}


@pytest.mark.parametrize("name", RUNS)
def test_resuming_is_never_having_stopped(resumes, tiny, name):
    resumes(tiny(f"{RUNS[name]} steps=6 save_every=100 eval_every=3"), 2, 4)


def test_micro_batches_add_up_to_the_batch(go, tiny, tmp_path):
    for microbatch in (8, 2):
        resolved = tiny(RUNS["shared and factorised"], dropout=0, steps=4, microbatch=microbatch)
        go(resolved, f"by {microbatch}")
    whole, parts = (final_tensors(tmp_path / f"by {n}") for n in (8, 2))
    for weight, tensor in whole.items():
        torch.testing.assert_close(parts[weight], tensor, atol=1e-5, rtol=1e-3)


def test_both_are_learned(go, tiny, tmp_path):
    go(tiny(f"{ELECTRA} steps=40 eval_every=20 generator=1"))
    held = lines(tmp_path / "run", "eval")
    for kind in ("rtd", "mlm"):
        assert held[-1]["losses"][kind] < held[0]["losses"][kind]
        assert 0 < held[-1]["accuracy"][kind] < 1
    assert held[-1]["unigram_loss"] == held[-1]["unigram_losses"]["mlm"] > 0
    assert held[-1]["base_rate"].keys() == {"rtd"}
    assert 0.8 < held[-1]["base_rate"]["rtd"] < 1  # 85% are no candidates, some guesses are right


def test_the_two_are_exported_and_the_generator_fills(go, tiny, tmp_path):
    go(tiny(HALF))
    model = tmp_path / "run" / "model"
    for folder, kind in (
        (model, transformers.ElectraForPreTraining),
        (model / "generator", transformers.ElectraForMaskedLM),
    ):
        theirs, info = kind.from_pretrained(folder, output_loading_info=True)
        assert not any(info.values()), info
    ids = torch.arange(5, 17)[None]
    ours = load(tmp_path / "run")
    table = ours.network("generator").embeddings.token.weight
    assert torch.equal(theirs.electra.embeddings.word_embeddings.weight, table)
    assert len(fill(tmp_path / "run", "the [MASK] barn").masks) == 1
    # What came out goes in again, both networks with what they tie.
    import_run(model, tmp_path / "again")
    (resolved, mine), (wanted, tensors) = (read_model(tmp_path / n) for n in ("again", "run"))
    assert resolved.stages[-1].generator.layers == wanted.stages[-1].generator.layers
    assert resolved.stages[0].replacements.tie == "embeddings"
    same_tensors(mine, tensors)
    torch.testing.assert_close(load(tmp_path / "again").encode(ids), ours.encode(ids))


def test_a_generator_no_layout_can_say_is_kept_all_the_same(go, tiny, tmp_path):
    report = go(tiny(HALF, activation="gelu-tanh"))
    model = tmp_path / "run" / "model"
    assert (model / "config.json").is_file()
    assert not (model / "generator" / "config.json").exists()
    assert any("activation=gelu-tanh" in note for note in report.notes)
    wanted = read_model(tmp_path / "run")[1]
    for checkpoint in (tmp_path / "run" / "checkpoints").iterdir():
        shutil.rmtree(checkpoint)
    same_tensors(read_model(tmp_path / "run")[1], wanted)
    alone = read_model(model / "generator")[1]
    assert torch.equal(alone["heads.mlm.bias"], wanted["heads.mlm.bias"])


SPEC = """layers=2 hidden=32 heads=4 vocab=300 seq=32 segments=0 norm=post(1e-7) dropout=0
attention=disentangled(16, 64) objective=rtd(add_cls=true)*10+mlm(replace=100/0/0)
generator=network(1, layers=1, tie=gdes)"""
TABLE = "embeddings.token.weight"


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
    # The encoder alone has the sum.
    model = drawn(resolve(SPEC), 0.3)
    tensors = {name: tensor.detach() for name, tensor in model.named_parameters()}
    alone = tensors_alone(model.resolved, tensors)
    both = tensors[f"encoder.{TABLE}"] + tensors[f"generator.{TABLE}"]
    assert torch.equal(alone[f"encoder.{TABLE}"], both)
    of_generator = tensors_alone(model.resolved, tensors, "generator")
    assert torch.equal(of_generator[f"encoder.{TABLE}"], tensors[f"generator.{TABLE}"])
    again = add_tables(model.resolved, add_tables(model.resolved, tensors), -1)
    torch.testing.assert_close(again, tensors)


@pytest.mark.parametrize(("width", "size"), [(384, 148_993), (768, 592_897), (1024, 1_052_673)])
def test_the_detector_has_the_published_size(width, size):
    weights = model_weights(resolve(SPEC.replace("hidden=32", f"hidden={width}")))
    assert sum(w.numel for w in weights if w.name.startswith("heads.rtd.")) == size


@torch.no_grad()
def test_the_detector_adds_the_first_state():
    head = drawn(resolve(SPEC), 0.3).heads["rtd"]
    assert isinstance(head, Detector)
    x = torch.randn(2, 7, 32)
    norm, state = head.norm, x + x[:, :1]
    summed_up = torch.nn.functional.layer_norm(state, (32,), norm.weight, norm.bias, 1e-7)
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
            kind = getattr(transformers, cls)
            theirs, info = kind.from_pretrained(folder, output_loading_info=True)
            assert not any(info.values()), info
            base = theirs.eval().base_model
            assert torch.equal(base.embeddings.word_embeddings.weight, table)
            states = base(ids, mask.long()).last_hidden_state
            found = model.read(EncoderInputs(ids, attention_mask=mask), name)
            torch.testing.assert_close(found[mask], states[mask], atol=1e-4, rtol=1e-4)
    assert any("rtd" in note for note in exported.notes)
