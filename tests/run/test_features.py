"""Heads over layers of a frozen network: counted as built, in use as trained."""

import pytest
import torch

from bertc.api import points
from bertc.base.diagnostics import DataError
from bertc.ir.program.resolved import Resolved
from bertc.model import build
from bertc.run.evaluation.tasks import evaluate_files
from bertc.run.models.loading import load
from bertc.use.graph import graph_of
from tests.net.programs import TOY
from tests.run.conftest import text, weights

pytestmark = pytest.mark.usefixtures("in_the_farm")

TUNED = {**TOY, "recipe": "bert", "seq": "24", "steps": "3", "layers": "3", "dropout": "0.1"}
CASES = {
    "mixed": (
        'glue(rte, "RTE", head=bilstm(6)) + glue(sst2, "SST-2", dropout=0)',
        "weighted-sum(all)",
    ),
    "tags": ('tagging("tags", head=bilstm(6, 2), dropout=0)', "second-to-last"),
    "spans": ('squad(".", version=2)', "concat(2)"),
    "pooled": ('glue(rte, "RTE", dropout=0)', "last"),
}


def spec(kind: str, **changed: str) -> str:
    task, features = CASES[kind]
    own = {"objective": task, "features": features, "freeze": "all"}
    return text(TUNED, **{**own, **changed})


def test_a_run_goes_on_to_the_same_bits_and_is_used_as_it_was_trained(tmp_path, resumes, go):
    (resolved,) = points(spec("tags", features="concat(last=2)"))
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


@pytest.mark.parametrize(
    ("extra", "layers"),
    [
        ("features=last", ()), ("features=second-to-last", (11,)), ("features=embeddings", (0,)),
        ("features=sum(last=4)", (9, 10, 11, 12)), ("features=concat(all)", tuple(range(1, 13))),
    ],
)  # fmt: skip
def test_layers_are_named_from_the_top(extra, layers):
    (stage,) = points(f'extends bert-base task=tag("-", labels=[x, y], examples=9) {extra}')[
        0
    ].stages
    assert stage.tasks[0].layers == layers


@pytest.mark.parametrize("kind", ["mixed", "spans", "pooled"])
def test_a_frozen_network_stays_as_it_is_and_heads_learn(kind, farm_run):
    (resolved,), run = points(spec(kind)), farm_run(spec(kind))
    learned, begun = weights(run), build(resolved).state_dict()
    changed = {name for name in learned if not torch.equal(learned[name], begun[name])}
    assert changed
    assert all(name.startswith(("heads.", "encoder.pooler.")) for name in changed)


def test_a_program_with_settings_that_are_gone_loads_and_stays_the_same():
    content = points(spec("pooled"))[0].model_dump(mode="json")
    content["stages"][0] |= {"features_cache": "fp16", "teacher_cache": "fp32"}
    again = Resolved.model_validate(content)
    assert again.model_dump(mode="json") == content
