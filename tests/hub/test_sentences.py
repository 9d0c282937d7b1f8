"""Vectors of texts: those of the model itself, and of folders of sentence-transformers."""

import gzip
import json
import re
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
import transformers
from pyarrow.parquet import read_table, write_table
from safetensors.torch import load_file, save_file

import bertc
from bertc.base.diagnostics import DataError, UsageError
from bertc.hub.sentences import MODES, Sentences, vectors_of
from bertc.hub.weights import SAFE
from bertc.ir.learning.objective import Term
from bertc.ir.learning.pooling import SparseVectors, TokenVectors
from bertc.ir.learning.vector_task import Embed
from bertc.model import EncoderInputs
from bertc.run.models import vectors
from bertc.run.models.loading import place_on_device
from bertc.run.models.runs import export_run, import_run
from bertc.use.embed import embed_file, refuse_other_files
from bertc.use.trained import Trained
from tests.hub.hf_models import SMALL
from tests.hub.test_runs import make_run
from tests.lab.onnx.conftest import NETWORK, TEXTS as PLAIN, run_of

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", ":", "query", "passage")
TEXTS = ["a b c", "b", "", "a b c d e f g h " * 9, "h g : query"]
TYPES = "sentence_transformers.models"
Files = Mapping[str, Any]


def modules(*kinds: str) -> list[dict[str, Any]]:
    names = ["", *(f"{n}_{kind}" for n, kind in enumerate(kinds) if n)]
    return [
        {"idx": n, "name": str(n), "path": path, "type": kind if "." in kind else f"{TYPES}.{kind}"}
        for n, (path, kind) in enumerate(zip(names, kinds, strict=True))
    ]


def pooling(*modes: str) -> dict[str, Any]:
    known = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    return {"word_embedding_dimension": 24, **{f"pooling_mode_{m}": m in modes for m in known}}


def folder_of(folder: Path, files: Files) -> Path:
    """A BERT of random weights, with a tokenizer and further files."""
    torch.manual_seed(0)
    config = transformers.BertConfig(**{**SMALL, "vocab_size": 97})
    transformers.BertModel(config).save_pretrained(folder)
    words = [*WORDS, *(f"w{n}" for n in range(97 - len(WORDS)))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True, "model_max_length": 20}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    write(folder, files)
    return folder


def write(folder: Path, files: Files) -> None:
    for name, value in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(value))


NOTHING_SAID: Files = {"config_sentence_transformers.json": {}}
POOLED: Files = {"modules.json": modules("Transformer", "Pooling")}
OLD = {"sentence_bert_config.json": {"max_seq_length": 9, "do_lower_case": False}}
LAST = {"method": "forward", "method_output_name": "last_hidden_state"}
NEW = {
    "sentence_bert_config.json": {
        "transformer_task": "feature-extraction",
        "modality_config": {"text": LAST},
        "module_output_name": "token_embeddings",
    },
    "config_sentence_transformers.json": {
        "__version__": {"sentence_transformers": "6.2.0"}, "model_type": "SentenceTransformer",
        "prompts": {"query": "query: ", "document": "", "passage": "passage: "},
        "default_prompt_name": "query", "similarity_fn_name": "dot",
    },
}  # fmt: skip
FOLDERS: dict[str, Files] = {
    "mean, normalised": {
        **OLD,
        "modules.json": modules("Transformer", "Pooling", "Normalize"),
        "1_Pooling/config.json": pooling("mean_tokens"),
    },
    "cls": {
        **POOLED, "1_Pooling/config.json": pooling("cls_token"),
        "sentence_bert_config.json": {"model_args": {"attn_implementation": "eager"}},
    },
    "max": {
        **POOLED, "1_Pooling/config.json": pooling("max_tokens"),
        "sentence_bert_config.json": {"max_seq_length": 12, "do_lower_case": True},
    },
    "written by 6": {
        **NEW,
        "modules.json": modules(
            "sentence_transformers.base.modules.transformer.Transformer",
            "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
        ),
        "1_Pooling/config.json": {"embedding_dimension": 24, "pooling_mode": "cls"},
    },
}  # fmt: skip
FOLDERS["written by 6"]["modules.json"][1]["path"] = "1_Pooling"


def test_a_folder_from_before_2_0_is_read(library_of, tmp_path):
    """Its files of the network lie as SentenceTransformer.save laid them out until 1.2."""
    folder, run = folder_of(tmp_path / "came", FOLDERS["mean, normalised"]), tmp_path / "run"
    inner = folder / "0_Transformer"
    inner.mkdir()
    for path in [path for path in folder.iterdir() if path.is_file()]:
        path.rename(inner / path.name)
    (inner / "modules.json").rename(folder / "modules.json")
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["path"] = inner.name
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "config.json").write_text('{"__version__": "0.3.8"}')
    expected = library_of(folder).encode(TEXTS)
    assert import_run(folder, run).program.name == "came"
    export_run(run, tmp_path / "left")
    for each in (folder, run, tmp_path / "left"):
        np.testing.assert_allclose(bertc.load(each).embed(TEXTS), expected, atol=2e-6, rtol=0)
    np.testing.assert_array_equal(library_of(tmp_path / "left").encode(TEXTS), expected)
    resolved = bertc.resolve(f"init='{folder}' task=embed('x.tsv', text=a, positive=b, examples=9)")
    assert resolved.encoder.hidden == 24
    assert (resolved.stages[0].tasks[0].longest, resolved.encoder.vocab_size) == (9, 97)


@pytest.fixture(scope="module")
def library_of() -> Any:
    """``SentenceTransformer``, whose import takes seconds."""
    from sentence_transformers import SentenceTransformer

    return lambda folder: SentenceTransformer(str(folder), device="cpu")


@pytest.mark.parametrize("name", FOLDERS)
def test_vectors_are_those_of_the_library_and_leave_as_they_came(name, library_of, tmp_path):
    folder = folder_of(tmp_path / "came", FOLDERS[name])
    library, run = library_of(folder), tmp_path / "run"
    expected = library.encode(TEXTS)
    import_run(folder, run)
    export_run(run, tmp_path / "left")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    for each in (folder, run, tmp_path / "left"):
        model = bertc.load(each)
        np.testing.assert_allclose(model.embed(TEXTS), expected, atol=2e-6, rtol=0)
        embedded = embed_file(each, tmp_path / "texts.txt")[1]  # in fp32 too
        np.testing.assert_allclose(embedded.vectors, expected, atol=2e-6, rtol=0)
        for prompt in set(library.prompts) & {"passage"}:
            found = model.embed(TEXTS, prompt=prompt)
            again = library.encode(TEXTS, prompt_name=prompt)
            np.testing.assert_allclose(found, again, atol=2e-6, rtol=0)
    np.testing.assert_array_equal(library_of(tmp_path / "left").encode(TEXTS), expected)
    for file in FOLDERS[name]:
        assert (tmp_path / "left" / file).read_bytes() == (folder / file).read_bytes()
    long = np.linalg.norm(model.embed(TEXTS, normalise=True), axis=1)
    np.testing.assert_allclose(long, 1, atol=1e-6)
    assert not np.allclose(np.linalg.norm(model.embed(TEXTS, normalise=False), axis=1), 1)
    pytest.raises(UsageError, model.embed, TEXTS, prompt="nothing").match("has no prompt nothing")


SPECS = {
    "embeds": "task=embed('pairs.tsv', text=a, positive=b)",
    "reads text": "objective=mlm seq=16 batch=2 data=files('text.txt')",
}


@pytest.mark.parametrize("name", SPECS)
def test_a_run_that_begins_there_learns_and_leaves_with_its_ways(
    name, library_of, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    folder, run = folder_of(tmp_path / "came", FOLDERS["written by 6"]), tmp_path / "run"
    rows = "".join(f"{text[:9]} a\t{text[:7]} b\n" for text in TEXTS * 2)
    Path("pairs.tsv").write_text(f"a\tb\n{rows}")
    Path("text.txt").write_text("\n\n".join(TEXTS * 9))
    bertc.train(f"init='came' steps=1 device=cpu precision=fp32 {SPECS[name]}", run)
    shutil.rmtree(folder / "1_Pooling")  # the run has its own by now
    model = bertc.load(run)
    if name == "embeds":
        (task,) = model.resolved.stages[0].tasks
        assert (task.answer.pooling, task.prompt) == ("cls", "query: ")
        assert task.longest == model.resolved.stages[0].seq == 20
    for left in (run / "model", export_run(run, tmp_path / "left").folder):
        library = library_of(left)
        assert (library.max_seq_length, library.prompts["passage"]) == (20, "passage: ")
        assert library.similarity_fn_name == "dot"
        np.testing.assert_allclose(library.encode(TEXTS), model.embed(TEXTS), atol=2e-6)


REFUSED: list[tuple[Files, str]] = [
    ({"modules.json": modules("Transformer", "my.Pooling")}, "my.Pooling"),
    ({"modules.json": modules("WordEmbeddings", "Pooling")}, "a module .WordEmbeddings.,"),
    ({"modules.json": modules("Transformer")}, "no module Pooling"),
    ({"1_Pooling/config.json": pooling("cls_token", "max_tokens")}, r'\["cls", "max"\]'),
    ({"1_Pooling/config.json": pooling("mean_sqrt_len_tokens")}, "mean_sqrt_len_tokens"),
    ({"1_Pooling/config.json": {"pooling_mode": "weightedmean"}}, "weightedmean"),
    ({"1_Pooling/config.json": {"pooling_mode": "cls", "include_prompt": False}}, "t = false"),
    ({"sentence_bert_config.json": {"method": "x"}}, 'method = "x"'),
    ({"config_sentence_transformers.json": {"model_type": "SparseEncoder"}}, "Sparse"),
    ({"config_sentence_transformers.json": {"prompts": {"a": 1}}}, "prompts = "),
    ({"modules.json": modules("Transformer", "Pooling", "Dense")}, "out_features = null"),
    (
        {
            "modules.json": modules("Transformer", "Pooling", "Dense"),
            "2_Dense/config.json": {"out_features": 8, "activation_function": "torch.nn.Tanh"},
        },
        'activation_function = "torch.nn.Tanh"',
    ),
]


def test_vectors_of_other_modules_are_refused_by_name(tmp_path):
    folder = folder_of(tmp_path / "came", {})
    for files, named in REFUSED:
        write(folder, {**FOLDERS["cls"], **OLD, **NOTHING_SAID, **files})
        with pytest.raises(DataError, match=named) as error:
            vectors_of(folder, None).refuse_obstacle(folder)
        assert "--pooling mean" in error.value.help
    imported = import_run(folder, tmp_path / "run")
    assert "the encoder is imported without them" in imported.summary(folder)
    for each in (folder, tmp_path / "run"):
        pytest.raises(DataError, bertc.load(each).embed, TEXTS).match(named)
        with pytest.raises(DataError, match=named):
            bertc.resolve(f"init='{each}' task=embed('x.tsv', text=a, positive=b, examples=9)")
        assert bertc.load(each).embed(TEXTS, "mean").shape == (5, 24)
    task = "task=embed('x.tsv', text=a, positive=b, examples=9, pooling=max)"
    assert bertc.resolve(f"init='{folder}' {task}").stages[0].tasks[0].answer.pooling == "max"
    exported = export_run(tmp_path / "run", tmp_path / "left")
    assert "without files of sentence-transformers" in exported.summary()
    assert not (tmp_path / "left" / "modules.json").exists()
    export_run(tmp_path / "run", tmp_path / "left", "mean")
    export_run(tmp_path / "run", tmp_path / "left")  # in the place of the one before
    assert not (tmp_path / "left" / "modules.json").exists()


def test_damaged_files_are_named(tmp_path):
    write(tmp_path, FOLDERS["cls"])
    for content in ("", "[", "{}", "[1]", '[{"type": 3}]', "\ud800", "[" * 99999):
        (tmp_path / "modules.json").write_bytes(content.encode("utf-8", "surrogatepass"))
        with pytest.raises(DataError, match=r"modules\.json|module"):
            vectors_of(tmp_path, None).refuse_obstacle(tmp_path)


def test_a_run_is_scored_by_clusters_of_a_local_task(tmp_path):
    """By the class of the page on search; skipped where mteb is not there."""
    mteb = pytest.importorskip("mteb")
    from datasets import Dataset, DatasetDict
    from mteb.abstasks import AbsTaskClustering
    from mteb.mocks.mock_tasks.clustering import MockClusteringTask

    page = Path(__file__).parents[2] / "docs" / "how-to" / "documents.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    names: dict[str, type] = {}
    exec(block, names)  # as a reader would

    class Texts(AbsTaskClustering):
        metadata = MockClusteringTask.metadata
        max_fraction_of_documents_to_embed = None

        def load_data(self, **_):
            texts, labels = ["a b", "h g"] * 8, [0, 1] * 8
            of_split = Dataset.from_dict({"sentences": texts, "labels": labels})
            self.dataset, self.data_loaded = DatasetDict({"test": of_split}), True

    import_run(folder_of(tmp_path / "came", FOLDERS["mean, normalised"]), tmp_path / "run")
    result = mteb.evaluate(names["Encoder"](tmp_path / "run"), Texts(), cache=None)
    (scores,) = result.task_results[0].scores["test"]
    assert scores["v_measure"] == pytest.approx(1.0), "two texts are two clusters"


@pytest.mark.parametrize("pooling", [SparseVectors(), TokenVectors()])
def test_a_task_with_other_vectors_leaves_out_what_is_of_one_dense_vector(pooling):
    task = Embed(train="a.tsv", positive="b", pooling=pooling)
    sentences = Sentences(normalise=True, dense=(8,), similarity="dot", longest=9)
    read = sentences.complete(Term(objective=task), Path()).objective
    assert Embed.model_validate(read.model_dump()) == read
    assert (read.longest, read.normalise, read.dense) == (9, False, ())


WAYS = {
    "mean": lambda states: states.mean(0),
    "cls": lambda states: states[0],
    "max": lambda states: states.amax(0), "last": lambda states: states[-1],
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_of(tmp_path_factory.mktemp("embed") / "run", f"{NETWORK} objective=mlm")


@pytest.fixture(scope="module")
def model(run: Path) -> Trained:
    return bertc.load(run)


@pytest.mark.parametrize("pooling", WAYS)
@torch.no_grad()
def test_each_text_has_the_vector_that_it_has_alone(pooling, model, monkeypatch):
    monkeypatch.setattr(vectors, "TOKENS_AT_ONCE", {"cpu": 20})  # several batches
    found = model.embed(PLAIN, pooling)
    for text, vector in zip(PLAIN, found, strict=True):
        row = model.tokenizer(text)
        inputs = EncoderInputs(row["token_ids"], row["segment_ids"], row["attention_mask"])
        np.testing.assert_allclose(vector, WAYS[pooling](model.read_on(inputs).last[0]), atol=1e-5)


def test_lines_are_embedded_in_their_order_and_written(run, model, tmp_path, call):
    texts = ["hens\x85and\u2028ducks", "", " ".join(PLAIN)]  # the last is longer than a row
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    words = (str(tmp_path / "texts.txt"), "-o", str(tmp_path / "vectors.npy"))
    code, out, _ = call("embed", str(run), *words)
    assert (code, "1 text longer than 24 tokens" in out) == (0, True)
    np.testing.assert_allclose(np.load(words[-1]), model.embed(texts), atol=1e-6)


ROWS = [*zip(["odd", "even"] * 6, PLAIN, strict=True)]
CSV = "label,text\n" + "\n".join(map(",".join, ROWS))
LINES = [json.dumps({"label": label, "text": text}) for label, text in ROWS]
write_table(pa.Table.from_pylist([*map(json.loads, LINES)]), parquet := pa.BufferOutputStream())
FILES = [
    ("a.csv", CSV, ""), ("a.tsv", CSV.replace(",", "\t"), ""), ("a.jsonl", "\n".join(LINES), ""),
    ("a.csv.gz", gzip.compress(CSV.encode()), ""),
    ("a.parquet", parquet.getvalue().to_pybytes(), ""), ("b.csv", "", "b.csv:1: the file is empty"),
    ("b.csv", CSV.replace(",", ";"), "b.csv:1: semicolons separate its cells"),
    ("b.csv", CSV.replace("text", "body"), "b.csv:1: no column 'text'; there are label, body"),
    ("b.csv", CSV.replace("w5", "böse").encode("latin-1"), "is not UTF-8\nhelp: iconv -f CP1252"),
    ("b.jsonl", '{"text": "w5", "label": "odd"}\n{"te', "b.jsonl:2: not JSON"),
    ("b.jsonl", '{"text": null, "label": "odd"}', "b.jsonl:1: 'text' is empty, text expected"),
    ("b.json", "[]", "help: an object a line: name it"),
]  # fmt: skip
"""Files with the same rows, and those that no command reads, with what every one says of them."""


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = written(tmp_path_factory.mktemp("tuned") / "a.csv", CSV)
    return run_of(file.with_name("run"), f"{NETWORK} task=classify('{file}', '{file}')")


@pytest.mark.parametrize(("name", "content", "said"), FILES)
def test_commands_read_files_alike_or_say_the_same(name, content, said, tuned, tmp_path, call):
    file, vectors = str(written(tmp_path / name, content)), str(tmp_path / "v.parquet")
    task = ("--task", f"classify('{file}')")
    uses = {"embed": (file, "-o", vectors), "predict": (file,), "eval": task}
    called = {use: call(use, str(tuned), *words) for use, words in uses.items()}
    assert {code for code, _, _ in called.values()} == {65 if said else 0}
    assert all(said in err for _, _, err in called.values())
    if not said:
        answers = called["predict"][1].splitlines()
        assert [json.loads(line)["text"] for line in answers] == PLAIN
        assert read_table(vectors)["text"].to_pylist() == PLAIN
        found = np.array(read_table(vectors)["vector"].to_pylist())
        np.testing.assert_allclose(found, bertc.load(tuned).embed(PLAIN), atol=1e-6)
        assert "scored on 12 examples" in called["eval"][1]


@pytest.mark.parametrize("layout", ["run", "model.safetensors", "pytorch_model.bin"])
def test_every_command_refuses_weights_that_are_no_numbers(layout, tuned, tmp_path, call):
    model, folder = bertc.load(tuned), tmp_path / "folder"
    model.get_parameter("encoder.ffn.1.inner.bias").data[3] = torch.nan
    if layout == "run":
        folder.mkdir()
        make_run(folder, model.resolved, {0: dict(model.named_parameters())})
    else:
        weights = load_file(export_run(tuned, folder).folder / SAFE)
        weights["bert.encoder.layer.1.output.dense.bias"][3] = torch.inf
        (folder / SAFE).unlink()
        (save_file if layout == SAFE else torch.save)(weights, folder / layout)
    file, new = str(written(tmp_path / "a.csv", CSV)), str(tmp_path / "new")
    uses = {"fill": ["w5 [MASK]"], "predict": [file], "embed": [file, "--near", "w5"],
            "eval": ["--task", f"classify('{file}')"], "export": ["--to", new],
            "import": ["--out", new]}  # fmt: skip
    for name in [*uses][: 5 if layout == "run" else 6]:
        code, _, err = call(name, str(folder), *uses[name])
        assert (code, "weights are NaN or infinite in" in err) == (65, True), (name, err)


def test_the_folder_of_others_is_evaluated_as_the_run_that_it_came_from(tuned, tmp_path, call):
    folder, file = export_run(tuned, tmp_path / "out").folder, written(tmp_path / "a.csv", CSV)
    task = ("--task", f"classify(dev='{file}')", "--json")
    own, other = (json.loads(call("eval", str(at), *task)[1]) for at in (tuned, folder))
    assert other["evaluation"]["scores"] == own["evaluation"]["scores"]
    assert not (folder / "calibration.json").exists()
    assert "--task \"classify('FILE')\" scores a file" in call("eval", str(folder))[2]


def test_the_nearest_rows_of_files_are_printed_as_a_search_compares_them(tmp_path, call):
    ways = "text=a, positive=b, query_prompt='w7 ', passage_prompt='w8 '"
    file = written(tmp_path / "a.tsv", "a\tb\n" + "".join(f"w5\t{text}\n" for text in PLAIN))
    run = run_of(tmp_path / "run", f"{NETWORK} task=embed('{file}', {ways})")
    written(tmp_path / "b.tsv", "a\tb\nw5\t\n")  # its text is empty
    words = ("--text", "b", "--near", PLAIN[3], "--top", "4", "-o", str(tmp_path / "v.npy"))
    code, out, _ = call("embed", str(run), str(tmp_path / "*.tsv"), *words)
    made = partial(bertc.load(run).embed, normalise=True)
    scores_n = made(PLAIN, kind="document") @ made(PLAIN[3:4], kind="query")[0]
    rows, best = [json.loads(line) for line in out.splitlines()], np.argsort(-scores_n)[:4]
    assert (code, np.load(tmp_path / "v.npy").shape) == (0, (13, 24))
    assert [row.pop("score") for row in rows] == pytest.approx([*scores_n[best]], abs=2e-6)
    assert rows == [{"place": f"{file}:{n + 2}", "text": PLAIN[n]} for n in best]
    assert "-o vectors.npy, or --near TEXT" in call("embed", str(run), str(file))[2]
    assert "--text COLUMN names" in call("embed", str(run), str(file), "--near", "w5")[2]
    assert '/**/*.md"' in call("embed", str(run), str(tmp_path), "--near", "w5")[2]


def test_what_cannot_be_embedded_is_refused(run, model, tmp_path):
    (tmp_path / "empty.txt").touch()
    pytest.raises(DataError, embed_file, run, tmp_path / "empty.txt").match("no texts")
    with pytest.raises(UsageError, match="there is none") as error:
        model.embed(PLAIN, "median")
    assert error.value.help == "one of mean, cls, max, last"
    assert model.embed([]).shape == (0, 24)
    pytest.raises(TypeError, model.embed, PLAIN[0]).match("a list expected")
    with pytest.raises(UsageError, match=r"\.npy or \.parquet"):
        refuse_other_files(tmp_path / "vectors.csv")
    with pytest.raises(UsageError, match="there is no folder"):
        refuse_other_files(tmp_path / "no" / "vectors.npy")
    error = pytest.raises(UsageError, export_run, run, tmp_path / "out", "last4")
    assert "one of mean, cls, max, last" in error.value.help
    assert not (tmp_path / "out").exists()


def test_maps_in_bf16_are_cast_once_to_the_same_vectors(run):
    at_once, in_batches = bertc.load(run), bertc.load(run)
    place_on_device(at_once, "cpu", "bf16")
    in_batches.compute_dtype = torch.bfloat16
    assert at_once.get_parameter("encoder.ffn.0.inner.weight").dtype == torch.bfloat16
    assert (at_once.embed(PLAIN) == in_batches.embed(PLAIN)).all()


@pytest.mark.parametrize("pooling", MODES)
def test_the_pooling_is_written_for_sentence_transformers(pooling, run, tmp_path):
    """tests/hub/test_vectors.py loads such a folder."""
    to = export_run(run, tmp_path / "out", pooling).folder
    config = json.loads((to / "1_Pooling" / "config.json").read_text())
    chosen = [mode for mode, taken in config.items() if taken is True]
    assert chosen == [f"pooling_mode_{MODES[pooling]}"]
    assert config["word_embedding_dimension"] == 24
    told = json.loads((to / "sentence_bert_config.json").read_text())
    assert told["max_seq_length"] == 24
    assert told["model_args"] == {"add_pooling_layer": False}, "the folder has no pooler's weights"
    paths = [module["path"] for module in json.loads((to / "modules.json").read_text())]
    assert paths == ["", "1_Pooling"]
