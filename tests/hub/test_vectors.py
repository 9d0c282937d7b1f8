"""Losses of vectors, searches and exported ways of both, beside sentence-transformers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import bertc
from bertc import lab_api
from bertc.base.diagnostics import DataError, SpecError, UsageError
from bertc.ir.learning.vector_task import Embed, InColumn
from bertc.learn.objectives.softmax.similarities import related_losses
from bertc.run.models.runs import export_run, import_run
from bertc.tasks.layouts.parts import part_examples
from bertc.tasks.metrics.metrics import ranked_scores
from tests.hub.test_sentences import TEXTS, folder_of, modules, pooling

PAIR = {"text": "a", "positive": "b"}
LIST = PAIR | {"negative": "c", "score": "s", "similarity": "dot", "temperature": 1.0}
TOY = "layers=1 hidden=8 heads=1 vocab=64 seq=32"
LOSSES: dict[str, tuple[dict[str, Any], str]] = {
    "InfoNCE": (PAIR, "MultipleNegativesRankingLoss"),
    "negatives": (PAIR | {"negative": "c"}, "MultipleNegativesRankingLoss"),
    "widths": (PAIR | {"widths": (8, 4, 2)}, "MultipleNegativesRankingLoss"),
    "margin": (LIST | {"loss": "margin"}, "MarginMSELoss"),
    "lists": (LIST | {"loss": "kl", "negatives": InColumn(number=3)}, "DistillKLDivLoss"),
}  # fmt: skip


def expected_loss(name: str, parts: list[Tensor], scores: Tensor, task: Embed) -> Tensor:
    from sentence_transformers.sentence_transformer import losses
    from sentence_transformers.sentence_transformer.losses.matryoshka import shrink

    loss = getattr(losses, name)(torch.nn.Identity())
    labels = scores[:, 1] - scores[:, 2] if name == "MarginMSELoss" else scores[:, 1:]
    widths = task.widths or (parts[0].shape[1],)
    cut = [[shrink(part, width) if task.widths else part for part in parts] for width in widths]
    every = [loss.compute_loss_from_embeddings(of, labels) for of in cut]
    return torch.stack(every).sum() / len(every)  # the library sums over widths


@pytest.mark.parametrize("kind", LOSSES)
def test_losses_are_those_of_the_library(kind):
    arguments, name = LOSSES[kind]
    task, draw = Embed.model_validate(arguments), torch.Generator().manual_seed(3)
    vectors = torch.randn(5, task.texts, 8, generator=draw).requires_grad_()
    scores = torch.randn(5, task.texts, generator=draw)
    expected = expected_loss(name, [*vectors.unbind(1)], scores, task)
    found = related_losses(task, vectors, scores if task.score else None).losses.mean()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    both = [torch.autograd.grad(loss, vectors)[0] for loss in (found, expected)]
    torch.testing.assert_close(*both, rtol=1e-5, atol=1e-5)


def search(folder: Path, *relevant: str) -> str:
    """A search of three queries, as arguments of ``embed``; ``relevant`` are lines."""
    documents = [{"_id": f"d{n}", "title": "h" * (n == 0), "text": t} for n, t in enumerate("abcd")]
    asked = [{"_id": f"q{n}", "text": text} for n, text in enumerate(["a b", "c", "d"])]
    for name, rows in (("corpus", documents), ("queries", asked)):
        (folder / name).with_suffix(".jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "relevant.tsv").write_text("\n".join(relevant) + "\n")
    files = {"corpus": "corpus.jsonl", "queries": "queries.jsonl", "relevant": "relevant.tsv"}
    return ", ".join(f"{name}='{folder / file}'" for name, file in files.items())


def test_several_sets_are_learned_and_a_search_is_scored_as_the_library_does(tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    pools = {"1_Pooling/config.json": pooling("mean_tokens")}
    came = folder_of(
        tmp_path / "came", {"modules.json": modules("Transformer", "Pooling"), **pools}
    )
    graded = ("query-id\tcorpus-id\tscore", "q0\td0\t1", "q0\td3\t2", "q1\td2\t1", "q2\td0\t0")
    sets = [
        "name=a, widths=[24, 8], dev_examples=1",
        f"name=b, dev_examples=1, {search(tmp_path, *graded)}",
    ]
    for name in "ab":
        (tmp_path / name).with_suffix(".tsv").write_text("a\tb\n" + "a b\tb c\nd\tc\n" * 3)
    prompts = "text=a, positive=b, query_prompt='query : ', passage_prompt='passage : '"
    tasks = (
        f"embed('{tmp_path}/{name}.tsv', {prompts}, {of})"
        for name, of in zip("ab", sets, strict=True)
    )
    spec = f"init='{came}' task={' + '.join(tasks)} smoothing=0.5 steps=2 batch=2 device=cpu"
    run = tmp_path / "run"
    report = bertc.train(f"{spec} precision=fp32", run)
    assert report.evaluation.scores["b"]["dev-corpus"].keys() == {"ndcg@10", "mrr@10", "recall@100"}
    left = SentenceTransformer(str(export_run(run, tmp_path / "left").folder), device="cpu")
    expected = InformationRetrievalEvaluator(
        {"q0": "a b", "q1": "c"}, {"d0": "h a", "d1": "b", "d2": "c", "d3": "d"},
        {"q0": {"d0"}, "q1": {"d2"}}, map_at_k=[2], precision_recall_at_k=[100],
    )(left)  # fmt: skip
    asked = search(tmp_path, "query-id\tcorpus-id", "q0\td0", "q1\td2")
    found = lab_api.evaluate_run(run, task=f"embed({asked})").evaluation.scores["embed"][
        "dev-corpus"
    ]
    assert found == {
        metric: pytest.approx(expected[f"cosine_{metric}"]) for metric in ("ndcg@10", "mrr@10")
    } | {"recall@100": 1.0}
    import_run(tmp_path / "left", tmp_path / "back")
    again = lab_api.evaluate_run(tmp_path / "back", task=f"embed({asked})").evaluation
    assert again.scores["embed"]["dev-corpus"] == pytest.approx(found), "with its prompts"
    assert again.examples == 2, "queries, and no documents"
    model = bertc.load(run)
    for kind, encode in (("query", left.encode_query), ("document", left.encode_document)):
        ours = model.embed(TEXTS, prompt=kind, width=8)
        np.testing.assert_allclose(ours, encode(TEXTS, truncate_dim=8), atol=2e-6, rtol=0)
    with pytest.raises(UsageError, match="24 numbers, not 25"):
        model.embed(TEXTS, width=25)


def test_metrics_of_ranks_by_hand():
    queries = [
        (["x", "a", "y", "b"], {"a": 1.0, "b": 2.0, "c": 1.0}), (["y", "x"], {"a": 1.0}),
    ]  # fmt: skip
    best = 2 + 1 / np.log2(3) + 1 / 2
    assert ranked_scores(("ndcg@10", "mrr@10", "recall@100", "map"), queries) == {
        "ndcg@10": pytest.approx((1 / np.log2(3) + 2 / np.log2(5)) / best / 2),
        "mrr@10": pytest.approx(1 / 4),
        "recall@100": pytest.approx(1 / 3),
        "map": pytest.approx((1 / 2 + 2 / 4) / 3 / 2),
    }


BAD = {
    "no document": ("query-id\tcorpus-id\nq0\td9", "relevant.tsv:2: the document 'd9' is not in"),
    "no score": ("query-id\tcorpus-id\tscore\nq0\td0\tx", "'score' is 'x', a number expected$"),
    "no query": ("query-id\tcorpus-id\nq9\td0", "relevant to the 3 queries"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_search_without_its_documents_is_refused(name, tmp_path):
    lines, message = BAD[name]
    resolved = bertc.resolve(f"{TOY} task=embed('-', examples=1, {search(tmp_path, lines)})")
    with pytest.raises(DataError, match=message) as refused:
        part_examples(resolved.stages[0].tasks[0], "dev-corpus")
    assert "classify" not in refused.value.help


def test_two_documents_of_one_key_are_refused(tmp_path):
    asked = search(tmp_path, "query-id\tcorpus-id", "q0\td0")
    (tmp_path / "corpus.jsonl").write_text('{"_id": 1, "text": "a"}\n{"_id": 1, "text": "b"}\n')
    resolved = bertc.resolve(f"{TOY} task=embed('-', examples=1, {asked})")
    with pytest.raises(DataError, match="corpus.jsonl:2: an earlier line has the _id '1' too"):
        part_examples(resolved.stages[0].tasks[0], "dev-corpus")


EITHER = "positive=..., negative=...; or passage=..., label=..."
REFUSED = {
    "embed(FILE, text=a, positive=b, negative=c)": (
        "t.jsonl:1: a negative is the positive itself", ""
    ),
    "embed(FILE, text=a, positive=b, negative=d, negatives=column(3))": (
        "2 negatives, 3 expected", "negatives=column(2), or a longer list in 'd'"
    ),
    "embed(FILE, text=a, positive=b, negative=d, negatives=column(2), score=s, loss=kl)": (
        "2 scores in 's', and 3 texts to score", "a list of scores"
    ),
    "embed(FILE, text=a, positive=b, score=s, loss=kl)": (
        "loss=kl compares the scores", "negative=..."
    ),
    "embed(FILE, text=a, negatives=mined(r))": (
        "negatives=mined(...) needs positive", "positive=..."
    ),
    "embed(FILE, text=a, positive=b, widths=[8, 16])": ("from the widest to", "that is 16, 8"),
    "embed(FILE, text=a, positive=b, corpus=c)": ("a search has", "queries=..., relevant=..."),
    "embed(FILE, text=a, positive=b, pooling=tokens, similarity=dot)": (
        "similarity=dot is of one vector a text", "pooling=mean"
    ),
    "embed(FILE, text=a, positive=b, pooling=tokens(8), widths=[16])": (
        "widths has a prefix of 16 numbers, and vectors have 8", ""
    ),
    "embed(FILE, text=a, positive=b, pooling=tokens(8, 40))": (
        "queries are filled to 40 tokens, and rows have 32", "query=32"
    ),
    "rerank(FILE, positive=b)": ("", EITHER),
    "rerank(FILE, negative=b)": ("", EITHER),
    "rerank(FILE, positive=b, negative=b)": ("", "leave it out"),
    "rerank(FILE, text=b, passage=b, label=n)": ("a number from 0 to 1", ""),
    "rerank(FILE, positive=b, negatives=mined('r', top=2, number=3))": ("", "top=3, or more"),
}  # fmt: skip


@pytest.mark.parametrize("task", REFUSED)
def test_what_does_not_fit_is_refused_with_a_way_out(task, tmp_path):
    row = {"a": "x", "b": "y", "c": "y", "d": ["z", "w"], "s": [1, 2], "n": 3, "query": "x"}
    (tmp_path / "t.jsonl").write_text(json.dumps(row))
    message, help = REFUSED[task]
    with pytest.raises((SpecError, DataError)) as error:
        bertc.resolve(f"{TOY} task={task.replace('FILE', repr(str(tmp_path / 't.jsonl')))}")
    assert message in str(error.value)
    assert help in f"{error.value} {getattr(error.value, 'help', '')}"
