"""Vectors of texts: from states of the model itself, in any order, and where they are written."""

import gzip
import json
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow.parquet import read_table, write_table
from safetensors.torch import load_file, save_file

import bertc
from bertc.base.diagnostics import DataError, UsageError
from bertc.hub.sentences import MODES
from bertc.hub.weights import SAFE
from bertc.model import EncoderInputs
from bertc.run.models import vectors
from bertc.run.models.loading import placed
from bertc.run.models.runs import export_run
from bertc.use.embed import embed_file, refuse_other_files
from bertc.use.trained import Trained
from tests.hub.test_runs import make_run
from tests.lab.onnx.conftest import NETWORK, TEXTS, run_of

WAYS = {
    "mean": lambda states: states.mean(0),
    "cls": lambda states: states[0],
    "max": lambda states: states.amax(0),
}


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
    found = model.embed(TEXTS, pooling)
    for text, vector in zip(TEXTS, found, strict=True):
        row = model.tokenizer(text)
        inputs = EncoderInputs(row["token_ids"], row["segment_ids"], row["attention_mask"])
        expected = WAYS[pooling](model.read_on(inputs).last[0])
        np.testing.assert_allclose(vector, expected, atol=1e-5)
    long = np.linalg.norm(model.embed(TEXTS, pooling, normalise=True), axis=1)
    np.testing.assert_allclose(long, 1, atol=1e-6)


def test_lines_are_embedded_in_their_order_and_written(run, model, tmp_path, call):
    texts = ["hens\x85and\u2028ducks", "", " ".join(TEXTS)]  # the last is longer than a row
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    words = (str(tmp_path / "texts.txt"), "-o", str(tmp_path / "vectors.npy"))
    code, out, _ = call("embed", str(run), *words)
    assert (code, "1 text longer than 24 tokens" in out) == (0, True)
    np.testing.assert_allclose(np.load(words[-1]), model.embed(texts), atol=1e-6)


ROWS = [*zip(["odd", "even"] * 6, TEXTS, strict=True)]
CSV = "label,text\n" + "\n".join(map(",".join, ROWS))
LINES = [json.dumps({"label": label, "text": text}) for label, text in ROWS]
write_table(pa.Table.from_pylist([*map(json.loads, LINES)]), parquet := pa.BufferOutputStream())
FILES = [
    ("a.csv", CSV, ""),
    ("a.tsv", CSV.replace(",", "\t"), ""),
    ("a.csv.gz", gzip.compress(CSV.encode()), ""),
    ("a.jsonl", "\n".join(LINES), ""),
    ("a.parquet", parquet.getvalue().to_pybytes(), ""),
    ("b.csv", CSV.replace(",", ";"), "b.csv:1: semicolons separate its cells"),
    ("b.csv", CSV.replace("text", "body"), "b.csv:1: no column 'text'; there are label, body"),
    ("b.csv", CSV.replace("w5", "böse").encode("latin-1"), "is not UTF-8; it seems to be"),
    ("b.csv", "", "b.csv:1: the file is empty"),
    ("b.jsonl", '{"text": "w5", "label": "odd"}\n{"te', "b.jsonl:2: not JSON"),
    ("b.jsonl", '{"text": null, "label": "odd"}', "b.jsonl:1: 'text' is empty, text expected"),
    ("b.json", "[]", "help: an object a line: name it"),
]
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
        assert [json.loads(line)["text"] for line in answers] == TEXTS
        assert read_table(vectors)["text"].to_pylist() == TEXTS
        found = np.array(read_table(vectors)["vector"].to_pylist())
        np.testing.assert_allclose(found, bertc.load(tuned).embed(TEXTS), atol=1e-6)
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
    file = written(tmp_path / "a.tsv", "a\tb\n" + "".join(f"w5\t{text}\n" for text in TEXTS))
    run = run_of(tmp_path / "run", f"{NETWORK} task=embed('{file}', {ways})")
    written(tmp_path / "b.tsv", "a\tb\nw5\t\n")  # its text is empty
    words = ("--text", "b", "--near", TEXTS[3], "--top", "4", "-o", str(tmp_path / "v.npy"))
    code, out, _ = call("embed", str(run), str(tmp_path / "*.tsv"), *words)
    made = partial(bertc.load(run).embed, normalise=True)
    scores_n = made(TEXTS, kind="document") @ made(TEXTS[3:4], kind="query")[0]
    rows, best = [json.loads(line) for line in out.splitlines()], np.argsort(-scores_n)[:4]
    assert (code, np.load(tmp_path / "v.npy").shape) == (0, (13, 24))
    assert [row.pop("score") for row in rows] == pytest.approx([*scores_n[best]], abs=2e-6)
    assert rows == [{"place": f"{file}:{n + 2}", "text": TEXTS[n]} for n in best]
    assert "-o vectors.npy, or --near TEXT" in call("embed", str(run), str(file))[2]
    assert "--text COLUMN names" in call("embed", str(run), str(file), "--near", "w5")[2]
    assert '/**/*.md"' in call("embed", str(run), str(tmp_path), "--near", "w5")[2]


def test_what_cannot_be_embedded_is_refused(run, model, tmp_path):
    (tmp_path / "empty.txt").touch()
    with pytest.raises(DataError, match="no texts"):
        embed_file(run, tmp_path / "empty.txt", quiet=True)
    with pytest.raises(UsageError, match="there is none") as error:
        model.embed(TEXTS, "median")
    assert error.value.help == "one of mean, cls, max"
    assert model.embed([]).shape == (0, 24)
    with pytest.raises(TypeError, match="a list expected"):
        model.embed(TEXTS[0])
    with pytest.raises(UsageError, match=r"\.npy or \.parquet"):
        refuse_other_files(tmp_path / "vectors.csv")
    with pytest.raises(UsageError, match="there is no folder"):
        refuse_other_files(tmp_path / "no" / "vectors.npy")
    with pytest.raises(UsageError) as error:
        export_run(run, tmp_path / "out", "last4")
    assert "one of mean, cls, max" in error.value.help
    assert not (tmp_path / "out").exists()


def test_maps_in_bf16_are_cast_once_to_the_same_vectors(run):
    at_once, in_batches = bertc.load(run), bertc.load(run)
    placed(at_once, "cpu", "bf16")
    in_batches.compute_dtype = torch.bfloat16
    assert at_once.get_parameter("encoder.ffn.0.inner.weight").dtype == torch.bfloat16
    assert (at_once.embed(TEXTS) == in_batches.embed(TEXTS)).all()


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
