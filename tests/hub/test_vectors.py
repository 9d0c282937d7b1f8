"""Vectors, of tokens too, searches and rerankers: losses, ranks, folders, as their libraries."""

import json
import shutil
import string
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from pyarrow.parquet import read_table
from safetensors.torch import save_file
from torch import nn

import bertc
from bertc import lab_api
from bertc.base.diagnostics import DataError, MissingInputError, SpecError, UsageError
from bertc.ir.learning.pooling import TokenVectors
from bertc.ir.learning.vector_task import Embed, InColumn, Rerank
from bertc.learn.objectives.softmax.similarities import related_losses, search as similarities
from bertc.run.models.runs import export_run, import_run
from bertc.run.models.vectors import embed
from bertc.tasks.layouts.example import TextExample
from bertc.tasks.layouts.parts import part_examples
from bertc.tasks.metrics.metrics import judge, ranked_scores
from bertc.use.embed import export_static, write_vectors
from tests.hub import test_sentences
from tests.hub.hf_models import respell
from tests.hub.test_sentences import NOTHING_SAID, POOLED, TEXTS, folder_of, modules, pooling, write

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


@pytest.mark.parametrize("kind", LOSSES)
def test_losses_are_those_of_the_library(kind):
    from sentence_transformers.sentence_transformer import losses
    from sentence_transformers.sentence_transformer.losses.matryoshka import shrink

    arguments, name = LOSSES[kind]
    task, draw = Embed.model_validate(arguments), torch.Generator().manual_seed(3)
    vectors = torch.randn(5, task.texts, 8, generator=draw).requires_grad_()
    scores = torch.randn(5, task.texts, generator=draw)
    loss = getattr(losses, name)(nn.Identity())
    labels = scores[:, 1] - scores[:, 2] if name == "MarginMSELoss" else scores[:, 1:]
    widths, parts = task.widths or (None,), vectors.unbind(1)
    cut = [[shrink(part, width) if width else part for part in parts] for width in widths]
    every = [loss.compute_loss_from_embeddings(texts, labels) for texts in cut]
    expected = torch.stack(every).mean()  # the library sums over widths
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

    came = folder_of(tmp_path / "came", POOLED | {"1_Pooling/config.json": pooling("mean_tokens")})
    graded = ("query-id\tcorpus-id\tscore", "q0\td0\t1", "q0\td3\t2", "q1\td2\t1", "q2\td0\t0")
    sets = {"a": "widths=[24, 8]", "b": search(tmp_path, *graded)}
    for name in sets:
        (tmp_path / name).with_suffix(".tsv").write_text("a\tb\n" + "a b\tb c\nd\tc\n" * 3)
    ways = "text=a, positive=b, query_prompt='query : ', passage_prompt='passage : '"
    ways += ", dev_examples=1"
    tasks = (f"embed('{tmp_path}/{n}.tsv', name={n}, {ways}, {of})" for n, of in sets.items())
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
    scores = lab_api.evaluate_run(run, task=f"embed({asked})").evaluation.scores
    found, compared = scores["embed"]["dev-corpus"], ("ndcg@10", "mrr@10")
    wanted = {metric: pytest.approx(expected[f"cosine_{metric}"]) for metric in compared}
    assert found == wanted | {"recall@100": 1.0}
    import_run(tmp_path / "left", tmp_path / "back")
    again = lab_api.evaluate_run(tmp_path / "back", task=f"embed({asked})").evaluation
    assert again.scores["embed"]["dev-corpus"] == pytest.approx(found), "with its prompts"
    assert again.examples == 2, "queries, and no documents"
    model = bertc.load(run)
    for kind, encode in (("query", left.encode_query), ("document", left.encode_document)):
        ours = model.embed(TEXTS, prompt=kind, width=8)
        np.testing.assert_allclose(ours, encode(TEXTS, truncate_dim=8), atol=2e-6, rtol=0)
    pytest.raises(UsageError, model.embed, TEXTS, width=25).match("24 numbers, not 25")


def test_metrics_of_ranks_by_hand():
    queries = [(["x", "a", "y", "b"], {"a": 1.0, "b": 2.0, "c": 1.0}), (["y", "x"], {"a": 1.0})]
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
    "one key": ("query-id\tcorpus-id\nq0\td0", "jsonl:2: an earlier line has the _id '1' too"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_search_without_its_documents_or_with_two_of_one_key_is_refused(name, tmp_path):
    lines, message = BAD[name]
    asked = search(tmp_path, lines)
    if name == "one key":
        (tmp_path / "corpus.jsonl").write_text('{"_id": 1, "text": "a"}\n{"_id": 1, "text": "b"}\n')
    (task,) = bertc.resolve(f"{TOY} task=embed('-', examples=1, {asked})").stages[0].tasks
    with pytest.raises(DataError, match=message) as refused:
        part_examples(task, "dev-corpus")
    assert "classify" not in refused.value.help


EITHER = "positive=..., negative=...; or passage=..., label=..."
PAIRED = "embed(FILE, text=a, positive=b, "
REFUSED = {
    f"{PAIRED}negative=c)": ("t.jsonl:1: a negative is the positive itself", ""),
    f"{PAIRED}negative=d, negatives=column(3))":
        ("2 negatives, 3 expected", "negatives=column(2), or a longer list in 'd'"),
    f"{PAIRED}negative=d, negatives=column(2), score=s, loss=kl)":
        ("2 scores in 's', and 3 texts to score", "a list of scores"),
    f"{PAIRED}score=s, loss=kl)": ("loss=kl compares the scores", "negative=..."),
    "embed(FILE, text=a, negatives=mined(r))":
        ("negatives=mined(...) needs positive", "positive=..."),
    f"{PAIRED}widths=[8, 16])": ("from the widest to", "that is 16, 8"),
    f"{PAIRED}corpus=c)": ("a search has", "queries=..., relevant=..."),
    f"{PAIRED}pooling=tokens, similarity=dot)":
        ("similarity=dot is of one vector a text", "pooling=mean"),
    f"{PAIRED}pooling=tokens(8), widths=[16])":
        ("widths has a prefix of 16 numbers, and vectors have 8", ""),
    f"{PAIRED}pooling=tokens(8, 40))":
        ("queries are filled to 40 tokens, and rows have 32", "query=32"),
    f"{PAIRED}pooling=sparse, similarity=cosine)": ("similarity is of dense", "leave it out"),
    f"{PAIRED}pooling=sparse, normalise=true)": ("normalise is of dense", "pooling=mean"),
    f"{PAIRED}pooling=sparse, widths=[4])": ("widths is of dense vectors", "leave it out"),
    f"{PAIRED}pooling=sparse, mlp=true)": ("mlp is of dense vectors", "leave it out"),
    f"{PAIRED}pooling=sparse) head=transform(decoder=64)": ("(decoder) has not", "pooling=mean"),
    f"{PAIRED}pooling=sparse) steps=1h": ("warm-up of pooling=sparse is a share", "warmup=0"),
    "rerank(FILE, positive=b)": ("", EITHER), "rerank(FILE, negative=b)": ("", EITHER),
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


PAIRS = [("a b", "b"), ("c", "d e f"), ("g h", "")]
RERANKERS = {
    "lists": "rerank('lists.tsv', 'lists.tsv', positive=good, negative=bad)",
    "judged on pairs": "rerank('lists.tsv', 'graded.tsv', positive=good, negative=bad)",
    "mined": "rerank('lists.tsv', 'graded.tsv', positive=good, negatives=mined('came'))",
    "pairs": "rerank('graded.tsv', 'graded.tsv', activation=identity)",
}


@pytest.mark.parametrize("name", RERANKERS)
def test_a_reranker_leaves_as_a_cross_encoder_and_comes_back(name, tmp_path, monkeypatch):
    from sentence_transformers import CrossEncoder

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERTC_CACHE", str(tmp_path / "cache"))
    folder_of(tmp_path / "came", NOTHING_SAID)
    Path("lists.tsv").write_text("query\tgood\tbad\na b\tb c\td\nc d\td\te f\n")
    Path("graded.tsv").write_text("query\tpassage\tlabel\na b\tb c\t1\na b\td\t0.5\nc d\td\t0\n")
    spec = f"init='came' task={RERANKERS[name]} steps=2 batch=2 seq=20 device=cpu precision=fp32"
    (scores,) = bertc.train(f"{spec} compile=off", tmp_path / "run").evaluation.scores.values()
    assert scores["dev"].keys() == {"ndcg@10", "mrr@10", "map"}
    found = [row["score"] for row in bertc.load(tmp_path / "run").predict(PAIRS)]
    left = export_run(tmp_path / "run", tmp_path / "left").folder
    library = CrossEncoder(str(left), device="cpu")
    assert library.tokenizer.model_max_length == 20, "it cuts where the run does"
    expected = library.predict(PAIRS)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    assert name == "pairs" or 0 < min(found) < max(found) < 1
    import_run(left, tmp_path / "back")
    again = [row["score"] for row in bertc.load(tmp_path / "back").predict(PAIRS)]
    np.testing.assert_allclose(again, expected, atol=2e-6)


COMPUTED = {
    1: (nn.Identity, nn.Sigmoid, nn.Tanh, nn.ReLU),
    3: (nn.Identity, nn.Sigmoid, nn.Softmax),
}


def say(folder, to, place, activation):
    """A copy of a folder that says its activation where some version of the library does."""
    shutil.copytree(folder, to)
    beside, value = to / "config_sentence_transformers.json", {"activation_fn": activation}
    if place == "beside":
        beside.write_text(json.dumps(json.loads(beside.read_text()) | value))
    else:
        beside.unlink()
        (to / "modules.json").unlink()
        respell(to, **{place: value if place == "sentence_transformers" else activation})


@pytest.mark.filterwarnings("ignore:Implicit dimension choice for softmax")
@pytest.mark.parametrize("scores", COMPUTED)
def test_scores_of_a_cross_encoder_have_its_activation_or_are_refused_by_name(scores, tmp_path):
    from sentence_transformers import CrossEncoder
    from sentence_transformers.util import fullname

    encoder, folder = folder_of(tmp_path / "encoder", NOTHING_SAID), tmp_path / "theirs"
    library = CrossEncoder(str(encoder), num_labels=scores, device="cpu")
    nn.init.normal_(library.model.classifier.weight, generator=torch.Generator().manual_seed(1))
    library.save_pretrained(str(folder))
    places = ("beside", "sentence_transformers", "sbert_ce_default_activation_function")
    for activation, place in product(COMPUTED[scores], places):
        library.activation_fn = activation()
        expected, name = library.predict(PAIRS), f"{activation.__name__} {place}"
        say(folder, tmp_path / name, place, fullname(library.activation_fn))
        import_run(tmp_path / name, tmp_path / f"{name} run")
        found = bertc.load(tmp_path / f"{name} run").predict(PAIRS)
        rows = [row["score"] if scores == 1 else [*row["probabilities"].values()] for row in found]
        unlike = scores > 1 and activation is nn.Identity  # labels have probabilities, not logits
        parts = nn.Softmax(1)(torch.tensor(expected)).numpy() if unlike else expected
        np.testing.assert_allclose(rows, parts, atol=2e-6)
        left = export_run(tmp_path / f"{name} run", tmp_path / f"{name} left").folder
        again = CrossEncoder(str(left), device="cpu").predict(PAIRS)
        np.testing.assert_allclose(again, expected, atol=2e-6)
    unlike = f"torch.nn.{'Softmax' if scores == 1 else 'Tanh'}"
    for named in ("torch.nn.modules.activation.GELU", "mine.Tanh", unlike):
        say(folder, tmp_path / named, "beside", named)
        notes = import_run(tmp_path / named, tmp_path / f"{named} run").notes
        assert any(f'no task of bertc fits activation_fn = "{named}"' in note for note in notes)


def test_passages_of_a_query_are_ranked_and_queries_without_a_right_one_left_out():
    grades = {("q", "a"): 0.0, ("q", "b"): 1.0, ("q", "c"): 0.5, ("r", "a"): 0.0}
    examples = [TextExample("", texts, grade) for texts, grade in grades.items()]
    found = judge(Rerank(), examples, [0.9, 0.5, 0.1, 0.3])
    gain, best = 1 / np.log2(3) + 0.5 / 2, 1 + 0.5 / np.log2(3)
    assert found == {
        "ndcg@10": pytest.approx(gain / best),
        "mrr@10": 0.5,
        "map": pytest.approx((1 / 2 + 2 / 3) / 2),
    }
    with pytest.raises(DataError, match="no query has a passage with a label above 0"):
        judge(Rerank(), examples[3:], [0.3])


LATE_TEXTS = ["a b c", "b", "", "a ! b , c d e f g h " * 9, "h g : query"]
LATE_LOSSES = {
    "MultiVectorMultipleNegativesRankingLoss": {},
    "MultiVectorMarginMSELoss": {"score": "s", "loss": "margin"},
    "MultiVectorDistillKLDivLoss": {"score": "s", "loss": "kl"},
}


class Made(torch.nn.Module):
    """An encoder that makes the vectors that it is given."""

    def forward(self, features: dict[str, Any], task: str) -> dict[str, Any]:
        return {"token_embeddings": features["x"], "attention_mask": features["mask"]}


@pytest.mark.parametrize("name", LATE_LOSSES)
def test_losses_of_late_vectors_are_those_of_the_library(name):
    from sentence_transformers.multi_vector_encoder import losses

    lists = PAIR | {"negative": "c", "pooling": TokenVectors(width=6, query=5)}
    task = Embed.model_validate(lists | LATE_LOSSES[name])
    draw = torch.Generator().manual_seed(3)
    vectors = torch.randn(4, 3, 7, 6, generator=draw) - 0.5  # most similarities are below 0
    there = torch.rand(4, 3, 7, generator=draw) < 0.7
    there[:, :, 0], there[:, 0, 5:] = True, False
    vectors = (vectors * there[..., None]).requires_grad_()
    scores = torch.randn(4, 3, generator=draw)
    units = torch.nn.functional.normalize(vectors, dim=3)
    columns = [{"x": units[:, t], "mask": there[:, t], "task": "query"} for t in range(3)]
    labels = scores[:, 1] - scores[:, 2] if "Margin" in name else scores[:, 1:]
    expected = getattr(losses, name)(Made())(columns, labels)
    found = related_losses(task, vectors, scores if task.score else None).losses.mean()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    both = [torch.autograd.grad(loss, vectors)[0] * there[..., None] for loss in (found, expected)]
    torch.testing.assert_close(*both, rtol=1e-5, atol=1e-5)


PYLATE = {"model_type": "ColBERT", "query_prefix": "[Q] ", "document_prefix": "[D] "}
OURS = {"query_prefix": "[unused0]", "document_prefix": "[unused1]", "document_length": 16}
LATE_FOLDERS: dict[str, dict[str, Any]] = {
    "unsaid": {**PYLATE, **OURS},
    "attended": {**PYLATE, **OURS, "attend_to_expansion_tokens": True, "query_length": 12,
                 "document_length": 9, "skiplist_words": [], "do_query_expansion": True},
    "not filled": {**PYLATE, **OURS, "do_query_expansion": False, "query_length": 6,
                   "query_prefix": "", "skiplist_words": [*string.punctuation]},
}  # fmt: skip


def late_folder(folder: Path, settings: dict[str, Any]) -> Path:
    """A folder of PyLate with random weights; ``!`` and ``,`` are tokens of its vocabulary."""
    dense = {"in_features": 24, "out_features": 8, "bias": False,
             "activation_function": "torch.nn.modules.linear.Identity"}  # fmt: skip
    files = {
        "modules.json": modules("Transformer", "pylate.models.Dense.Dense"),
        "1_Dense/config.json": dense,
        "config_sentence_transformers.json": settings,
    }
    files["modules.json"][1]["path"] = "1_Dense"
    folder_of(folder, files)
    words = (folder / "vocab.txt").read_text()
    for one, other in (("w40", "!"), ("w41", ","), ("w50", "[unused0]"), ("w51", "[unused1]")):
        words = words.replace(f"{one}\n", f"{other}\n")
    (folder / "vocab.txt").write_text(words)
    weight = torch.randn(8, 24, generator=torch.Generator().manual_seed(1))
    save_file({"linear.weight": weight}, folder / "1_Dense" / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def library_of() -> Any:
    """``MultiVectorEncoder``, whose import takes seconds."""
    from sentence_transformers import MultiVectorEncoder

    return lambda folder: MultiVectorEncoder(str(folder), device="cpu")


def compare(model: Any, library: Any) -> None:
    """Compare vectors of both kinds of texts with the library's, and scores."""
    kinds = {"query": library.encode_query, "document": library.encode_document}
    for kind, encode in kinds.items():
        ours, expected = model.embed(LATE_TEXTS, prompt=kind), encode(LATE_TEXTS)
        for found, one in zip(ours, expected, strict=True):
            np.testing.assert_allclose(found[: len(one)], one, atol=3e-6, rtol=0)
            assert not found[len(one) :].any(), "absent tokens are 0"
    queries, texts = (
        [*torch.from_numpy(model.embed(LATE_TEXTS, prompt=kind)).double()] for kind in kinds
    )
    scores = torch.cat([*similarities(Embed(), queries, texts)]).float()
    library_of = library.similarity(*(encode(LATE_TEXTS) for encode in kinds.values()))
    torch.testing.assert_close(scores, library_of, atol=1e-5, rtol=1e-5)


def test_unattended_tokens_attend_to_the_others_of_a_window(library_of, tmp_path):
    folder = late_folder(tmp_path / "came", LATE_FOLDERS["unsaid"])
    config = transformers.ModernBertConfig(
        vocab_size=97, hidden_size=24, num_hidden_layers=3, num_attention_heads=3,
        intermediate_size=40, max_position_embeddings=32, local_attention=62, pad_token_id=0,
        bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3,
    )  # fmt: skip
    names = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    fast = transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer
    transformers.PreTrainedTokenizerFast(tokenizer_object=fast, **names).save_pretrained(folder)
    torch.manual_seed(0)
    transformers.ModernBertModel(config).save_pretrained(folder)
    compare(bertc.load(folder), library_of(folder))


@pytest.mark.parametrize("name", LATE_FOLDERS)
def test_late_folders_are_those_of_the_library_and_leave_as_they_came(name, library_of, tmp_path):
    folder, run = late_folder(tmp_path / "came", LATE_FOLDERS[name]), tmp_path / "run"
    library = library_of(folder)
    import_run(folder, run)
    export_run(run, tmp_path / "left")
    for each in (folder, run, tmp_path / "left"):
        compare(bertc.load(each), library)
    compare(bertc.load(run), library_of(tmp_path / "left"))
    library.save(str(tmp_path / "saved"))  # as sentence-transformers 6 lays it out
    compare(bertc.load(tmp_path / "saved"), library)


FOREIGN = {
    "1_Dense/config.json": ({"bias": True, "out_features": 8}, "bias = true"),
    "config_sentence_transformers.json": ({**PYLATE, "query_length": "x"}, 'query = "x"'),
    "sentence_bert_config.json": ({"query_expansion": {"strategy": "min"}}, 'strategy = "min"'),
}


def test_folders_with_other_ways_and_without_marks_are_refused_by_name(tmp_path):
    folder = late_folder(tmp_path / "came", LATE_FOLDERS["unsaid"])
    for name, (content, named) in FOREIGN.items():
        before = (folder / name).read_text() if (folder / name).exists() else "{}"
        write(folder, {name: content})
        pytest.raises(DataError, bertc.load(folder).embed, LATE_TEXTS).match(named)
        (folder / name).write_text(before)
    write(folder, {"config_sentence_transformers.json": PYLATE})
    with pytest.raises(DataError, match=r"no token '\[Q\] ', which query_mark puts before"):
        bertc.load(folder).embed(LATE_TEXTS, prompt="query")


def test_a_run_is_searched_as_the_library_does_and_mined(library_of, tmp_path):
    from sentence_transformers.multi_vector_encoder import evaluation

    came = late_folder(tmp_path / "came", LATE_FOLDERS["attended"])
    (tmp_path / "a.tsv").write_text("a\tb\n" + "a b\tb c\nd\tc\nh\tg ! h\n" * 2)
    asked = search(tmp_path, "query-id\tcorpus-id\tscore", "q0\td0\t1", "q0\td3\t1", "q1\td2\t1")
    task = f"embed('{tmp_path}/a.tsv', text=a, positive=b, {asked}"
    spec = f"init='{came}' steps=2 batch=2 device=cpu precision=fp32"
    run = tmp_path / "run"
    found = bertc.estimate(f"{spec} task={task})").parameters.total
    report = bertc.train(f"{spec} task={task})", run)
    assert found == sum(weight.numel() for weight in bertc.load(run).parameters())
    (task_learned,) = bertc.load(run).resolved.stages[0].tasks
    assert (task_learned.pooling.width, task_learned.temperature) == (8, 1.0)
    left = library_of(export_run(run, tmp_path / "left").folder)
    compare(bertc.load(run), left)
    expected = evaluation.MultiVectorInformationRetrievalEvaluator(
        {"q0": "a b", "q1": "c"}, {"d0": "h a", "d1": "b", "d2": "c", "d3": "d"},
        {"q0": {"d0", "d3"}, "q1": {"d2"}}, map_at_k=[2], precision_recall_at_k=[100],
    )(left)  # fmt: skip
    found = report.evaluation.scores["embed"]["dev-corpus"]
    assert found == {m: pytest.approx(expected[f"maxsim_{m}"]) for m in found}
    embedded = embed(bertc.load(run), run, LATE_TEXTS)
    write_vectors(LATE_TEXTS, embedded, tmp_path / "vectors.parquet")
    written = read_table(tmp_path / "vectors.parquet")["vector"].to_pylist()
    np.testing.assert_allclose(written[1], embedded.vectors[1][: len(written[1])])
    assert [len(vectors) for vectors in written] == [*embedded.vectors.any(2).sum(1)]
    mined = f"{task}, negatives=mined('{run}', number=1))"
    again = bertc.train(f"{spec} task={mined}", tmp_path / "mined")
    assert again.evaluation.scores["embed"]["dev-corpus"].keys() == found.keys()


def test_a_table_of_tokens_is_that_of_model2vec_and_is_scored_on_dev(tmp_path):
    from scipy.stats import spearmanr
    from sentence_transformers import SentenceTransformer

    came = folder_of(tmp_path / "came", POOLED | {"1_Pooling/config.json": pooling("mean_tokens")})
    rows = [("a b", "b c", 0.1), ("d", "d e", 0.9), ("h", "f g", 0.4), ("a query", "[UNK] h", 0.5)]
    for name in ("train", "dev"):
        lines = ["\t".join(map(str, row)) for row in (("text", "other", "near"), *rows)]
        (tmp_path / name).with_suffix(".tsv").write_text("\n".join(lines))
    task = f"embed('{tmp_path}/train.tsv', '{tmp_path}/dev.tsv', positive=other, score=near)"
    run = tmp_path / "run"
    bertc.train(f"init='{came}' task={task} steps=2 batch=2 device=cpu", run)
    written = [export_static(run, tmp_path / "static") for _ in "12"][1]  # in place of the first
    table = SentenceTransformer(str(tmp_path / "static"), device="cpu")
    model, words = bertc.load(run), [*test_sentences.WORDS[:2], *test_sentences.WORDS[5:]]
    words += [f"w{n}" for n in range(94 - len(words))]
    states = model.embed(words).astype(np.float64)
    ranks = 1 / np.arange(2, len(words) + 2)
    # Frequencies by Zipf's law, and a width of 24 has all of its axes: they only turn.
    scaled = (states - states.mean(0)) * (1e-4 / (1e-4 + ranks / ranks.sum()))[:, None]
    expected = np.array([sum(scaled[words.index(w)] for w in text.split()) for text, _, _ in rows])
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    found = table.encode([text for text, _, _ in rows])
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-5)
    first, other = (table.encode([row[n] for row in rows]) for n in (0, 1))
    asked = spearmanr((first * other).sum(1), [row[2] for row in rows]).statistic
    assert f"embed dev: spearman {asked:.4f}, of the network " in written.summary()
    refused = pytest.raises(MissingInputError, bertc.load, tmp_path / "static").value
    assert "SentenceTransformer(FOLDER).encode(TEXTS)" in refused.help
