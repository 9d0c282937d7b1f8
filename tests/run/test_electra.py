"""Two networks in one run: trained together or in turn, resumed, cut up, exported, asked."""

import pytest
import torch
import transformers

from bertc.ir.learning.objective import Mlm, Rtd, Sbo, Sop, Term
from bertc.ir.network.generator import GeneratorNetwork, UnigramGenerator
from bertc.ir.network.layer import Dropout
from bertc.ir.network.norm import PreNorm
from bertc.ir.network.sharing import ShareAll
from bertc.ir.terms.masking import Replace, SpanUnit
from bertc.run.models.loading import load, read_model
from bertc.run.models.runs import import_run
from bertc.use.fill_mask import fill
from tests.run.conftest import final_tensors, lines

MASKS = Mlm(replace=Replace(mask=85, random=0, keep=15), distinct=False)
ELECTRA = (Term(weight=50, objective=Rtd()), Term(objective=MASKS))
HALF = {"objective": ELECTRA, "generator": GeneratorNetwork(size=0.5)}
CALM = Dropout(hidden=0, attention=0)
RUNS = {
    "electra": HALF,
    "shared and factorised": {
        **HALF, "share": ShareAll(), "embedding": 16, "norm": PreNorm(), "microbatch": 2,
    },
    "spans and pairs": {
        "generator": GeneratorNetwork(layers=1, hidden=16, tie="none"),
        "objective": tuple(
            Term(objective=o) for o in (Rtd(over="masked"), Mlm(unit=SpanUnit()), Sbo(), Sop())
        ),
    },
    "gdes, packed": {
        "generator": GeneratorNetwork(size=0.5, tie="gdes"), "microbatch": 4, "pack": True,
        "seq": 64,
        "objective": (Term(weight=10, objective=Rtd(add_cls=True)), Term(objective=MASKS)),
    },
    "unigram": {"generator": UnigramGenerator(), "objective": (Term(objective=Rtd()),)},
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_resuming_is_never_having_stopped(resumes, tiny, name):
    resumes(tiny(**{"steps": 6, "save_every": 100, "eval_every": 3, **RUNS[name]}), 2, 4)


def test_micro_batches_add_up_to_the_batch(go, tiny, tmp_path):
    settings = {**RUNS["shared and factorised"], "dropout": CALM, "steps": 4, "seq": 24}
    for microbatch in (8, 2):
        go(tiny(**{**settings, "microbatch": microbatch}), f"by {microbatch}")
    whole, parts = (final_tensors(tmp_path / f"by {n}") for n in (8, 2))
    for weight, tensor in whole.items():
        torch.testing.assert_close(parts[weight], tensor, atol=1e-5, rtol=1e-3)


def test_both_are_learned(go, tiny, tmp_path):
    resolved = tiny(steps=40, eval_every=20, generator=GeneratorNetwork(size=1), objective=ELECTRA)
    go(resolved)
    held = lines(tmp_path / "run", "eval")
    for kind in ("rtd", "mlm"):
        assert held[-1]["losses"][kind] < held[0]["losses"][kind]
        assert 0 < held[-1]["accuracy"][kind] < 1
    assert held[-1]["unigram_loss"] == held[-1]["unigram_losses"]["mlm"] > 0
    assert held[-1]["base_rate"].keys() == {"rtd"}
    assert 0.8 < held[-1]["base_rate"]["rtd"] < 1  # 85% are no candidates, some guesses are right


def test_the_two_are_exported_and_the_generator_fills(go, tiny, tmp_path):
    go(tiny(**HALF))
    model = tmp_path / "run" / "model"
    for folder, name in ((model, "ElectraForPreTraining"), (model / "generator",
                                                             "ElectraForMaskedLM")):  # fmt: skip
        _, info = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
        assert not any(info.values()), info
    ids = torch.arange(5, 17)[None]
    theirs = transformers.ElectraForMaskedLM.from_pretrained(model / "generator").eval()
    ours = load(tmp_path / "run")
    table = ours.network("generator").embeddings.token.weight
    assert torch.equal(theirs.electra.embeddings.word_embeddings.weight, table)
    assert len(fill(tmp_path / "run", "the [MASK] barn").masks) == 1
    # What came out goes in again, both networks with what they tie.
    import_run(model, tmp_path / "again")
    (resolved, mine), (wanted, tensors) = (read_model(tmp_path / n) for n in ("again", "run"))
    assert resolved.stages[-1].generator is not None
    assert wanted.stages[-1].generator is not None
    assert resolved.stages[-1].generator.layers == wanted.stages[-1].generator.layers
    assert resolved.stages[0].replacements.tie == "embeddings"
    assert mine.keys() == tensors.keys()
    assert all(torch.equal(mine[name], tensors[name]) for name in mine)
    hidden = load(tmp_path / "again").encode(ids)
    torch.testing.assert_close(hidden, ours.encode(ids))


def test_a_generator_no_layout_can_say_is_kept_all_the_same(go, tiny, tmp_path):
    report = go(tiny(**HALF, activation="gelu-tanh"))
    model = tmp_path / "run" / "model"
    assert (model / "config.json").is_file()
    assert not (model / "generator" / "config.json").exists()
    assert any("activation=gelu-tanh" in note for note in report.notes)
    wanted = read_model(tmp_path / "run")[1]
    for checkpoint in (tmp_path / "run" / "checkpoints").iterdir():
        for file in checkpoint.iterdir():
            file.unlink()
        checkpoint.rmdir()
    found = read_model(tmp_path / "run")[1]
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in found)
    alone = read_model(model / "generator")[1]
    assert torch.equal(alone["heads.mlm.bias"], wanted["heads.mlm.bias"])
