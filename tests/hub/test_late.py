"""Vectors of tokens and MaxSim, beside sentence-transformers: losses, folders, searches."""

import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from pyarrow.parquet import read_table
from safetensors.torch import save_file

import bertc
from bertc.base.diagnostics import DataError
from bertc.ir.learning.answer import TokenVectors
from bertc.ir.learning.vector_task import Embed
from bertc.learn.objectives.softmax.similarities import related_losses
from bertc.learn.objectives.softmax.similarities import search as similarities
from bertc.run.models.runs import export_run, import_run
from bertc.run.models.vectors import Embedded
from bertc.use.embed import write_vectors
from tests.hub.test_sentences import folder_of, modules, write
from tests.hub.test_vectors import search

TEXTS = ["a b c", "b", "", "a ! b , c d e f g h " * 9, "h g : query"]
LISTS = {"text": "a", "positive": "b", "negative": "c", "pooling": TokenVectors(width=6, query=5)}
LOSSES = {
    "MultiVectorMultipleNegativesRankingLoss": {},
    "MultiVectorMarginMSELoss": {"score": "s", "loss": "margin"},
    "MultiVectorDistillKLDivLoss": {"score": "s", "loss": "kl"},
}


class Made(torch.nn.Module):
    """An encoder that makes the vectors that it is given."""

    def forward(self, features: dict[str, Any], task: str) -> dict[str, Any]:
        return {"token_embeddings": features["x"], "attention_mask": features["mask"]}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_those_of_the_library(name):
    from sentence_transformers.multi_vector_encoder import losses

    task, draw = Embed.model_validate(LISTS | LOSSES[name]), torch.Generator().manual_seed(3)
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
FOLDERS: dict[str, dict[str, Any]] = {
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
        ours, expected = model.embed(TEXTS, prompt=kind), encode(TEXTS)
        for found, one in zip(ours, expected, strict=True):
            np.testing.assert_allclose(found[: len(one)], one, atol=3e-6, rtol=0)
            assert not found[len(one) :].any(), "absent tokens are 0"
    queries, texts = (
        [*torch.from_numpy(model.embed(TEXTS, prompt=kind)).double()] for kind in kinds
    )
    scores = torch.cat([*similarities(Embed(), queries, texts)]).float()
    library_of = library.similarity(*(encode(TEXTS) for encode in kinds.values()))
    torch.testing.assert_close(scores, library_of, atol=1e-5, rtol=1e-5)


def test_unattended_tokens_attend_to_the_others_of_a_window(library_of, tmp_path):
    folder = late_folder(tmp_path / "came", FOLDERS["unsaid"])
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


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_are_those_of_the_library_and_leave_as_they_came(name, library_of, tmp_path):
    folder, run = late_folder(tmp_path / "came", FOLDERS[name]), tmp_path / "run"
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
    folder = late_folder(tmp_path / "came", FOLDERS["unsaid"])
    for name, (content, named) in FOREIGN.items():
        before = (folder / name).read_text() if (folder / name).exists() else "{}"
        write(folder, {name: content})
        with pytest.raises(DataError, match=named):
            bertc.load(folder).embed(TEXTS)
        (folder / name).write_text(before)
    write(folder, {"config_sentence_transformers.json": PYLATE})
    with pytest.raises(DataError, match=r"no token '\[Q\] ', which query_mark puts before"):
        bertc.load(folder).embed(TEXTS, prompt="query")


def test_a_run_is_searched_as_the_library_does_and_mined(library_of, tmp_path):
    from sentence_transformers.multi_vector_encoder.evaluation import (
        MultiVectorInformationRetrievalEvaluator,
    )

    came = late_folder(tmp_path / "came", FOLDERS["attended"])
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
    expected = MultiVectorInformationRetrievalEvaluator(
        {"q0": "a b", "q1": "c"}, {"d0": "h a", "d1": "b", "d2": "c", "d3": "d"},
        {"q0": {"d0", "d3"}, "q1": {"d2"}}, map_at_k=[2], precision_recall_at_k=[100],
    )(left)  # fmt: skip
    found = report.evaluation.scores["embed"]["dev-corpus"]
    assert found == {m: pytest.approx(expected[f"maxsim_{m}"]) for m in found}
    embedded = Embedded(bertc.load(run).embed(TEXTS), 0, 0, 0.0)
    write_vectors(TEXTS, embedded, tmp_path / "vectors.parquet")
    written = read_table(tmp_path / "vectors.parquet")["vector"].to_pylist()
    np.testing.assert_allclose(written[1], embedded.vectors[1][: len(written[1])])
    assert [len(vectors) for vectors in written] == [*embedded.vectors.any(2).sum(1)]
    mined = f"{task}, negatives=mined('{run}', number=1))"
    again = bertc.train(f"{spec} task={mined}", tmp_path / "mined")
    assert again.evaluation.scores["embed"]["dev-corpus"].keys() == found.keys()
