"""Runs whose network is frozen, with an adapter or with heads over its layers.
What learns, what a run ends with, and what later runs make of it.
"""

import json

import pytest
import torch

from bertc.api import points
from bertc.base.diagnostics import DataError, UsageError
from bertc.ir.methods.adapter import OF_PAIRS
from bertc.ir.program.resolved import Resolved
from bertc.model import build
from bertc.run.evaluation.tasks import evaluate_files
from bertc.run.models.loading import load, read_checkpoint, read_model
from bertc.run.models.runs import export_adapter_of, export_run
from bertc.use.card import export_adapter_with_card
from bertc.use.graph import graph_of
from tests.net.programs import TOY
from tests.run.conftest import text, weights

pytestmark = pytest.mark.usefixtures("in_the_farm")

BASE = {**TOY, "objective": "mlm", "positions": "32"}
TUNED = {
    name: TOY[name] for name in ("steps", "device", "precision", "compile", "optimizer")
} | {
    "objective": 'glue(rte, "RTE")', "seq": "24", "batch": "4", "save_every": "1",
    "adapt": "lora(4, 16, on=attention+ffn, dropout=0.1)",
}  # fmt: skip


def tuned(base: object, **changed: str) -> Resolved:
    return points(text(TUNED, **{"init": f'"{base}"', **changed}))[0]


def test_a_run_learns_its_pairs_resumes_to_the_bit_and_ends_merged(farm_run, tmp_path, resumes, go):
    base = farm_run(text(BASE))
    resumes(tuned(base), 2)
    run, before = tmp_path / "straight", read_model(base)[1]
    report, after = go(tuned(base), "straight", resume=True), weights(run)
    assert {name.rpartition(".")[2] for name in after} >= {*OF_PAIRS}
    for name, tensor in after.items():
        learns = name.startswith(("heads.", "encoder.pooler.")) or name.endswith(OF_PAIRS)
        assert learns or torch.equal(tensor, before[name]), name
    assert all(after[name].any() for name in after if name.endswith("lora_b"))
    merged = load(run)
    assert not any(name.endswith(OF_PAIRS) for name, _ in merged.named_parameters())
    assert "adapt" not in merged.resolved.model_dump()["stages"][0]["encoder"]
    again, _ = evaluate_files(run, "")
    assert again.losses == pytest.approx(report.evaluation.losses)
    # Without checkpoints the run has its model, and without pairs nothing for peft.
    export_adapter_with_card(run, tmp_path / "adapter")
    read = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert read["base_model_name_or_path"] is None, "a folder of this machine"
    card = (tmp_path / "adapter" / "README.md").read_text()
    assert "onto model, loaded with num_labels=2" in card
    assert "library_name: peft" in card
    export_run(run, tmp_path / "whole")
    (run / "checkpoints").rename(tmp_path / "checkpoints")
    model = read_model(run)[1]
    assert all(torch.equal(tensor, read_model(tmp_path / "whole")[1][name])
               for name, tensor in model.items())  # fmt: skip
    with pytest.raises(UsageError, match="no checkpoint with an adapter"):
        export_adapter_of(run, tmp_path / "adapter")


def test_later_runs_begin_with_the_merged_network_or_go_on_with_the_pairs(farm_run, tmp_path, go):
    go(tuned(farm_run(text(BASE)), average="ema(2)"), "first")
    first, merged = tmp_path / "first", read_model(tmp_path / "first")[1]
    go(tuned(first, adapt="", prune="neurons(50%)"), "pruned")
    assert load(tmp_path / "pruned").resolved.encoder.layers[0].ffn == 32
    go(tuned(first), "again")
    frozen = weights(tmp_path / "again")["encoder.embeddings.token.weight"]
    assert torch.equal(frozen, merged["encoder.embeddings.token.weight"])
    go(points(text(TUNED, init=f'run("{first}", moments=carry)'))[0], "carried")
    with pytest.raises(DataError, match="lora_a has no place here") as caught:
        go(points(text(TUNED, init=f'run("{first}", moments=carry)', adapt=""))[0], "bare")
    assert "moments=reset" in caught.value.help
    resolved, pairs, _ = read_checkpoint(tmp_path / "carried", 0, "adapted")
    assert any(name.endswith("lora_b") for name in pairs)
    # Its frozen network is that of the first base, not of the run that it went on from.
    with pytest.raises(DataError, match="holds other weights"):
        export_adapter_of(tmp_path / "carried", tmp_path / "adapter")


FROZEN = {**TOY, "recipe": "bert", "seq": "24", "steps": "3", "layers": "3", "dropout": "0.1"}
LEARNED_SUM = "weighted-sum(all)"
CASES = {
    "mixed": ('glue(rte, "RTE", head=bilstm(6)) + glue(sst2, "SST-2", dropout=0)', LEARNED_SUM),
    "tags": ('tagging("tags", head=bilstm(6, 2), dropout=0)', "second-to-last"),
    "spans": ('squad(".", version=2)', "concat(2)"),
    "pooled": ('glue(rte, "RTE", dropout=0)', "last"),
}


def featured(kind: str, **changed: str) -> str:
    task, features = CASES[kind]
    return text(FROZEN, **{**{"objective": task, "features": features, "freeze": "all"}, **changed})


def test_a_run_goes_on_to_the_same_bits_and_is_used_as_it_was_trained(tmp_path, resumes, go):
    (resolved,) = points(featured("tags", features="concat(last=2)"))
    resumes(resolved, 2)
    report, one = go(resolved, "straight", resume=True), weights(tmp_path / "straight")
    begun = build(resolved).state_dict()
    assert all(torch.equal(one[name], begun[name]) for name in one if name.startswith("encoder."))
    assert not torch.equal(one["heads.ner.weight"], begun["heads.ner.weight"])
    again, _ = evaluate_files(tmp_path / "straight", "")
    assert again.losses == pytest.approx(report.evaluation.losses)
    elsewhere, _ = evaluate_files(tmp_path / "straight", 'tagging("tags")')
    assert elsewhere.losses == again.losses
    with pytest.raises(DataError, match="head=bilstm"):
        graph_of(load(tmp_path / "straight")).refuse_unsayable()


@pytest.mark.parametrize(("extra", "layers"), [
    ("features=last", ()), ("features=second-to-last", (11,)), ("features=embeddings", (0,)),
    ("features=sum(last=4)", (9, 10, 11, 12)), ("features=concat(all)", tuple(range(1, 13))),
])  # fmt: skip
def test_layers_are_named_from_the_top(extra, layers):
    task = 'tag("-", labels=[x, y], examples=9)'
    ((stage,),) = (each.stages for each in points(f"extends bert-base task={task} {extra}"))
    assert stage.tasks[0].layers == layers


@pytest.mark.parametrize("kind", ["mixed", "spans", "pooled"])
def test_a_frozen_network_stays_as_it_is_and_heads_learn(kind, farm_run):
    (resolved,), run = points(featured(kind)), farm_run(featured(kind))
    learned, begun = weights(run), build(resolved).state_dict()
    changed = {name for name in learned if not torch.equal(learned[name], begun[name])}
    assert changed
    assert all(name.startswith(("heads.", "encoder.pooler.")) for name in changed)
