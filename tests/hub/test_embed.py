"""Vectors of texts: from states of the model itself, in any order, and where they are written."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from pyarrow.parquet import read_table

import bertc
from bertc.base.diagnostics import DataError, UsageError
from bertc.hub.sentences import MODES
from bertc.model import EncoderInputs
from bertc.run.models import vectors
from bertc.run.models.loading import placed
from bertc.run.models.runs import export_run
from bertc.use.embed import embed_file, refuse_other_files
from bertc.use.trained import Trained
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
    for name in ("vectors.npy", "vectors.parquet"):
        file, to = str(tmp_path / "texts.txt"), str(tmp_path / name)
        code, out, _ = call("embed", str(run), file, "-o", to)
        assert code == 0
        assert "1 text longer than 24 tokens" in out
    expected = model.embed(texts)
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), expected, atol=1e-6)
    table = read_table(tmp_path / "vectors.parquet").to_pydict()
    assert table["text"] == texts
    np.testing.assert_allclose(np.array(table["vector"]), expected, atol=1e-6)


def test_what_cannot_be_embedded_is_refused(run, model, tmp_path):
    (tmp_path / "empty.txt").touch()
    with pytest.raises(DataError, match="no lines"):
        embed_file(run, tmp_path / "empty.txt", quiet=True)
    (tmp_path / "latin.txt").write_bytes("Hühner\n".encode("latin-1") * 9)
    with pytest.raises(DataError, match="latin.txt:1: byte 0xfc is not UTF-8; it seems to be"):
        embed_file(run, tmp_path / "latin.txt", quiet=True)
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
def test_sentence_transformers_is_told_the_pooling(pooling, run, tmp_path):
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
