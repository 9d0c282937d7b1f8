"""Token tables that begin with vectors of words, from a file."""

import pytest
import torch

from bertc.api import points, resolve
from bertc.base.diagnostics import DataError, MissingInputError, SpecError
from bertc.ir.program.model import model_weights
from bertc.model.weights import initial_values
from bertc.run.beginning.init_from import TABLE
from bertc.run.models.loading import load
from bertc.run.train.loop import train
from bertc.text.vocab.vocabulary import vocabulary_of
from tests.fixes import apply_fixes
from tests.model.test_bilstm import spec
from tests.net.programs import FARM


@pytest.fixture(autouse=True)
def in_the_farm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FARM)


def test_vectors_of_a_file_are_rows_of_a_table(tmp_path):
    file = tmp_path / "v.txt"
    file.write_text("hens 1 2 3 4\nthe 0.5 0 0 1\nunheard 9 9 9 9\n")
    beside = {"vocab": "words(60)", "init": f'vectors("{file}")', "freeze": "embeddings"}
    (resolved,) = points(spec("glue", "bilstm(8)", embedding="4", **beside))
    train(resolved, tmp_path / "run", cache=tmp_path / "cache", quiet=True)
    model = load(tmp_path / "run")
    vocabulary = vocabulary_of(tmp_path / "run", resolved.encoder.vocab_size)
    table = model.encoder.tokens.weight
    hens = vocabulary.tokenizer.token_to_id("hens")
    assert table[hens].tolist() == [1, 2, 3, 4]  # and it is not trained
    drawn = {weight.name: weight for weight in model_weights(resolved)}[TABLE]
    other = vocabulary.tokenizer.token_to_id("ducks")
    assert torch.equal(table[other], initial_values(drawn, 0)[other])
    beside["freeze"] = "0"
    (resolved,) = points(spec("glue", "bilstm(8)", embedding="4", **beside))
    train(resolved, tmp_path / "trained", cache=tmp_path / "cache", quiet=True)
    assert load(tmp_path / "trained").encoder.tokens.weight[hens].tolist() != [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("lines", "message"),
    [("hens 1 2 3 4\nbees 1 2 3 4\nducks 1 2\n", "v.txt:3: 2 numbers, not 4 as before"),
     ("xyzzy 1 2 3 4\n", "is a token of the vocabulary")],
)  # fmt: skip
def test_vectors_that_do_not_fit_are_refused(lines, message, tmp_path):
    file = tmp_path / "v.txt"
    file.write_text(lines)
    beside = {"vocab": "words(60)", "init": f'vectors("{file}")', "embedding": "4"}
    (resolved,) = points(spec("glue", "bilstm(8)", **beside))
    with pytest.raises(DataError, match=message):
        train(resolved, tmp_path / "run", cache=tmp_path / "cache", quiet=True)


def test_vectors_that_are_not_there_are_missed_before_text_is_read(tmp_path):
    beside = {"vocab": "words(60)", "init": 'vectors("none.txt")', "embedding": "4"}
    (resolved,) = points(spec("glue", "bilstm(8)", **beside))
    with pytest.raises(MissingInputError, match="none.txt is not there"):
        train(resolved, tmp_path / "run", cache=tmp_path / "cache", quiet=True)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("body", ["bilstm(8) embedding=4", "transformer", "bilstm(8)"])
def test_the_width_of_vectors_is_put_right_by_the_help(body, tmp_path):
    (tmp_path / "v.txt").write_text("hens 1 2\n")
    text = f"body={body} vocab=words(60) init=vectors('{tmp_path / 'v.txt'}')"
    with pytest.raises(SpecError) as refused:
        resolve(text)
    (found,) = refused.value.diagnostics
    assert found.code == "E400"
    assert "has 2 numbers for a word, and the token table " in found.message
    resolve(apply_fixes(found.span.source, [found]))
