"""Sparse vectors: losses, warm-up, folders, searches as the library's, collapse, refusals."""

import json
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from pyarrow.parquet import read_table

import bertc
from bertc.api import findings
from bertc.base.diagnostics import DataError, UsageError
from bertc.ir.learning.pooling import SparseVectors
from bertc.ir.learning.vector_task import Embed
from bertc.learn.objectives.softmax.similarities import related_losses
from bertc.run.models.runs import export_run, import_run
from tests.hub.test_sentences import folder_of, modules, write
from tests.hub.test_vectors import search
from tests.run.conftest import resumed_is_the_same

TEXTS = ["a b c", "b", "", "a b c d e f g h " * 9, "h g query"]
PLACE = "1_SpladePooling/config.json"
TASK = {"text": "a", "positive": "b", "pooling": SparseVectors(query=0.5, passage=0.3, warmup=0.5)}
LIST = TASK | {"negative": "c", "score": "s"}
LOSSES: dict[str, dict[str, Any]] = {
    "MultipleNegativesRanking": TASK, "MarginMSE": LIST | {"loss": "margin"},
    "DistillKLDiv": LIST | {"loss": "kl"},
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_the_warm_up_are_those_of_the_library(name):
    from sentence_transformers.sparse_encoder import losses
    from sentence_transformers.sparse_encoder.callbacks import splade_callbacks as callbacks

    task, draw = Embed.model_validate(LOSSES[name]), torch.Generator().manual_seed(3)
    assert (task.similarity, task.temperature) == ("dot", 1.0)
    vectors = torch.randn(5, task.texts, 12, generator=draw).relu().requires_grad_()
    scores = torch.randn(5, task.texts, generator=draw)
    labels = scores[:, 1] - scores[:, -1] if "Margin" in name else scores[:, 1:]
    usual = {"temperature": 1.0} if "KLDiv" in name else {}
    made = itemgetter("of")
    splade = losses.SpladeLoss(made, getattr(losses, f"Sparse{name}Loss")(made, **usual), 0.3, 0.5)
    rises = callbacks.SpladeRegularizerWeightSchedulerCallback(splade, warmup_ratio=0.5)
    state = transformers.TrainerState(max_steps=8)
    rises.on_train_begin(None, state, None)
    columns = [{"of": {"sentence_embedding": x}} for x in vectors.unbind(1)]
    for step in range(8):
        state.global_step = step
        rises.on_step_begin(None, state, None)
        expected = sum(splade(columns, labels).values())
        known = scores if task.score else None
        found = related_losses(task, vectors, known, step / 8).losses.mean()
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        both = [torch.autograd.grad(loss, vectors)[0] for loss in (found, expected)]
        torch.testing.assert_close(*both, rtol=1e-5, atol=1e-5)


def sparse_folder(folder: Path) -> Path:
    """A folder of the library's with random weights, as its version 5 lays it out."""
    kinds, prompts = ("MLMTransformer", "SpladePooling"), {"query": "a ", "document": ""}
    came = modules(*(f"sentence_transformers.sparse_encoder.models.{kind}" for kind in kinds))
    came[1]["path"] = "1_SpladePooling"
    folder_of(folder, {
        "modules.json": came, PLACE: {"pooling_strategy": "max"},
        "sentence_bert_config.json": {"max_seq_length": 16, "do_lower_case": False},
        "config_sentence_transformers.json": {"model_type": "SparseEncoder", "prompts": prompts},
    })  # fmt: skip
    config = transformers.AutoConfig.from_pretrained(folder)
    torch.manual_seed(0)
    transformers.AutoModelForMaskedLM.from_config(config).save_pretrained(folder)
    return folder


def library_of(folder: Path) -> Any:
    from sentence_transformers import SparseEncoder

    return SparseEncoder(str(folder), device="cpu")


def compare(folder: Path, library: Any) -> None:
    model = bertc.load(folder)
    for kind, encode in (("query", library.encode_query), ("document", library.encode_document)):
        expected = encode(TEXTS).to_dense().numpy()
        np.testing.assert_allclose(model.embed(TEXTS, kind=kind), expected, atol=3e-6, rtol=0)
        assert 0 < np.count_nonzero(expected) < expected.size


def test_folders_are_those_of_the_library_and_leave_as_they_came(tmp_path):
    folder, run = sparse_folder(tmp_path / "came"), tmp_path / "run"
    library = library_of(folder)
    import_run(folder, run)
    export_run(run, tmp_path / "left")
    library.save(str(tmp_path / "saved"))  # as version 6 lays it out
    for place in (folder, run, tmp_path / "left", tmp_path / "saved"):
        compare(place, library)
    compare(run, library_of(tmp_path / "left"))


FOREIGN = {
    PLACE: {"pooling_strategy": "sum"},
    "config_sentence_transformers.json": {"similarity_fn_name": "cosine"},
    "sentence_bert_config.json": {"transformer_task": "feature-extraction"},
}


def test_folders_with_other_ways_or_without_a_head_are_refused_by_name(tmp_path):
    folder = sparse_folder(tmp_path / "came")
    for name, content in FOREIGN.items():
        before, (setting,) = json.loads((folder / name).read_text()), content
        write(folder, {name: content})
        pytest.raises(DataError, bertc.load(folder).embed, TEXTS).match(f"vectors have {setting} =")
        write(folder, {name: before})
    config = transformers.AutoConfig.from_pretrained(folder)
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    pytest.raises(DataError, bertc.load(folder).embed, TEXTS).match("has no masked-LM head")
    (tmp_path / "a.tsv").write_text("text\tb\na b\tb c\n")
    spec = f"init='{folder}' steps=1 batch=1 device=cpu task=embed('{tmp_path}/a.tsv', positive=b)"
    pytest.raises(DataError, findings, spec).match("has no masked-LM head")
    pytest.raises(DataError, bertc.train, spec, tmp_path / "run").match("has no masked-LM head")


def test_a_run_is_searched_written_mined_and_resumed(tmp_path, call, monkeypatch):
    from sentence_transformers.sparse_encoder import evaluation

    came = sparse_folder(tmp_path / "came")
    (tmp_path / "a.tsv").write_text("a\tb\n" + "a b\tb c\nd\tc\nh\tg h\n" * 2)
    asked = search(tmp_path, "query-id\tcorpus-id\tscore", "q0\td0\t1", "q0\td3\t1", "q1\td2\t1")
    task = f"embed('{tmp_path}/a.tsv', text=a, positive=b, {asked}, pooling=sparse(9, 3)"
    spec = f"init='{came}' steps=4 batch=2 device=cpu precision=fp32 save_every=2"
    run = tmp_path / "run"
    report = bertc.train(f"{spec} task={task})", run)
    resumed_is_the_same(partial(bertc.train, f"{spec} task={task})"), monkeypatch, tmp_path, 2)
    library = library_of(export_run(run, tmp_path / "left").folder)
    compare(run, library)
    expected = evaluation.SparseInformationRetrievalEvaluator(
        {"q0": "a b", "q1": "c"}, {"d0": "h a", "d1": "b", "d2": "c", "d3": "d"},
        {"q0": {"d0", "d3"}, "q1": {"d2"}}, map_at_k=[2], precision_recall_at_k=[100],
    )(library)  # fmt: skip
    found = report.evaluation.scores["embed"]["dev-corpus"]
    names = {"query_terms": "query_active_dims", "passage_terms": "corpus_active_dims"}
    assert found == {m: pytest.approx(expected[names.get(m, f"dot_{m}")]) for m in found}
    lines, vectors = tmp_path / "texts.txt", tmp_path / "v.parquet"
    lines.write_text("a b c\nh g\n")

    def embed(*more: object) -> str:
        return "".join(call("embed", *map(str, (run, lines, *more)))[1:])

    embed("-o", vectors)
    model = bertc.load(run)
    one, texts = model.embed(["a"], kind="query"), model.embed(["a b c", "h g"], kind="document")
    for row, vector in zip(read_table(vectors).to_pylist(), texts, strict=True):
        np.testing.assert_array_equal(row["indices"], vector.nonzero()[0])
        np.testing.assert_array_equal(row["weights"], vector[row["indices"]])
    assert f"help: -o {vectors}" in embed("-o", vectors.with_suffix(".npy"))
    pytest.raises(UsageError, model.embed, TEXTS, width=4).match("are sparse")
    near = json.loads(embed("--near", "a", "--top", 1).splitlines()[0])
    assert near["score"] == pytest.approx((texts @ one[0]).max(), rel=1e-5)
    code, answers, _ = call("predict", str(run), str(tmp_path / "a.tsv"))
    assert (code, answers.count('"similarity"')) == (0, 6)
    mined = f"{task}, negatives=mined('{run}', number=1))"
    assert bertc.train(f"{spec} task={mined}", tmp_path / "mined").evaluation


def test_vectors_that_collapse_to_zero_are_told_and_find_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sparse_folder(Path("came"))
    Path("a.tsv").write_text("a\tb\n" + "a b\tb c\nd\tc\nh\tg h\n" * 2)
    task = "embed('a.tsv', 'a.tsv', text=a, positive=b, pooling=sparse(1k, 1k, warmup=0))"
    spec = "init='came' steps=30 batch=2 device=cpu log_every=5 optimizer=adam(0.1, warmup=0)"
    report = bertc.train(f"{spec} task={task}", Path("run"))
    names = ("accuracy", "query_terms", "passage_terms")
    assert report.evaluation.scores["embed"]["dev"] == dict.fromkeys(names, 0.0)
    assert "embed dev: sparse vectors collapse to zero" in report.summary()
    assert "step 30: sparse vectors collapse to zero" in capsys.readouterr().err
