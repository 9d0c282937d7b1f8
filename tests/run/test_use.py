"""What a run is good for afterwards: eval and fill."""

import inspect
import io
import json
import logging
import shutil
import signal
from pathlib import Path

import pytest
import torch

import bertc
from bertc import lab_api
from bertc.base.diagnostics import DataError, MissingInputError, StoppedError, UsageError
from bertc.ir.learning.objective import Clm, Mlm, Nsp, Plm, Rtd, Term
from bertc.ir.network.attention import RelativeAttention
from bertc.ir.network.generator import GeneratorNetwork, UnigramGenerator
from bertc.ir.vocabulary import TokenizerFile
from bertc.learn.objectives import token_logits
from bertc.model import EncoderInputs
from bertc.run.evaluation import evaluate as evaluating
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.models.loading import load
from bertc.run.models.runs import model_after
from bertc.text.vocab.vocabulary import Vocabulary, load_vocabulary
from bertc.use import fill_mask as filling
from bertc.use.fill_mask import _Reader, fill


def test_eval_repeats_the_last_evaluation_of_the_run(finished, cache):
    report = evaluate_run(finished, cache=cache, quiet=True)
    last = json.loads((finished / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["kind"] == "eval"
    assert report.evaluation is not None
    assert report.evaluation.loss == pytest.approx(last["loss"], rel=1e-6)
    assert report.evaluation.unigram_loss == pytest.approx(last["unigram_loss"])
    assert report.step == 12
    assert json.loads(report.as_json())["evaluation"]["losses"].keys() == last["losses"].keys()
    assert report.evaluation.base_rate == {}
    assert report.notes[-1] == "read in full-sentences rows of 24 tokens"


def test_a_stopped_evaluation_begins_again(finished, cache, monkeypatch):
    monkeypatch.setattr(evaluating, "heldout_rows", lambda *_: signal.raise_signal(signal.SIGTERM))
    monkeypatch.setattr(evaluating, "counted", lambda *_: [None])
    with pytest.raises(StoppedError) as stopped:
        evaluate_run(finished, cache=cache, quiet=True)
    assert stopped.value.help == "the same command begins again"


def test_eval_refuses_other_text(finished, corpus_file, cache):
    before = corpus_file.read_text()
    corpus_file.write_text(before + "\nOne more.\n")
    try:
        with pytest.raises(DataError, match="text files have changed"):
            evaluate_run(finished, cache=cache, quiet=True)
    finally:
        corpus_file.write_text(before)


def test_eval_of_no_run(tmp_path):
    with pytest.raises(MissingInputError, match="holds no run"):
        evaluate_run(tmp_path, quiet=True)


def test_in_another_folder_a_run_names_that_of_its_files(
    call, tmp_path, cache, corpus_file, monkeypatch
):
    home, away = tmp_path / "home", tmp_path / "away"
    for folder in (home, away):
        folder.mkdir()
    monkeypatch.setenv("BERTC_CACHE", str(cache))
    monkeypatch.chdir(home)
    (home / "rows.tsv").write_text("text\tlabel\n" + "a hen\tx\na duck\ty\n" * 8)
    spec = f"layers=1 hidden=32 heads=2 data=files('{corpus_file}') vocab=wordpiece(99) seq=16 "
    spec += "batch=4 steps=2 device=cpu "
    assert call("train", spec + "task=classify('rows.tsv', 'rows.tsv')", "--out", "runs/a")[0] == 0
    monkeypatch.chdir(away)
    run = str(home / "runs" / "a")
    for words in (
        ("eval", run), ("eval", run, "--task", "classify"), ("show-batch", run),
        ("train", "--resume", run),
    ):  # fmt: skip
        code, _, err = call(*words)
        assert (code, f"help: cd {home}: names of files of a begin there" in err) == (66, True), err
    assert "begin there" not in call("eval", run, "--task", "classify", "--part", "test")[2]
    (home / "rows.tsv").unlink()
    assert "begin there" not in call("eval", run)[2]


def test_what_takes_a_folder_takes_its_name():
    named = [(bertc, n) for n in bertc.__all__] + [(lab_api, n) for n in lab_api.__all__]
    public = [getattr(module, name) for module, name in named if name == name.lower()]
    for one in filter(callable, [*public, lab_api.RunFolder]):
        first = str([*inspect.signature(one).parameters.values()][:1])
        assert "Path" not in first or "str" in first, one
    assert lab_api.RunFolder("a").spec == Path("a/spec.bertc")


def test_a_checkpoint_that_is_passed_over_is_named(finished, tmp_path, monkeypatch):
    copy = tmp_path / "run"
    shutil.copytree(finished, copy)
    older, newest = sorted((copy / "checkpoints").glob("step-*"))[-2:]
    weights = newest / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"lost")
    shown = io.StringIO()
    logger = logging.getLogger(load.__module__)
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler(shown)])
    fill(copy, "Hens [MASK] and ducks [MASK].", top=3)
    model_after(copy, 0)  # once, however often it is looked for
    said = (
        f"{int(newest.name[5:])} in {newest.parent} are damaged: those after step {older.name[-1]}"
    )
    assert shown.getvalue().count(said) == 1


def test_fill_gives_the_likeliest_tokens_of_each_mask(finished):
    found = fill(finished, "Hens [MASK] and ducks [MASK].", top=3)
    assert len(found.masks) == 2
    for candidates in found.masks:
        probabilities = [c.probability for c in candidates]
        assert len(probabilities) == 3
        assert probabilities == sorted(probabilities, reverse=True)
        assert 0 < sum(probabilities) <= 1
    assert found.summary().startswith("mask 1:\n")
    assert json.loads(found.as_json())["masks"][0][0].keys() == {"token", "probability"}
    with pytest.raises(UsageError, match="no \\[MASK\\]"):
        fill(finished, "Hens cackle.")


def test_messages_spell_the_mask_as_the_vocabulary_does(finished, monkeypatch):
    monkeypatch.setattr(Vocabulary, "token", lambda *_: "<mask>")
    with pytest.raises(UsageError, match="the text has no <mask>"):
        fill(finished, "Hens and ducks.")


def test_fill_sees_long_texts_around_each_mask(finished, monkeypatch):
    """Every mask stands in its own row, inside it, with as much text as fits."""
    rows = []
    real = filling.token_scores

    def watched(model, objective, reading, at_m):
        rows.append(len(at_m))
        return real(model, objective, reading, at_m)

    monkeypatch.setattr(filling, "token_scores", watched)
    text = "Hens cackle. " * 40
    found = fill(finished, f"[MASK] {text} [MASK] {text} [MASK]", top=1)
    assert len(found.masks) == 3
    assert rows == [3]


@pytest.fixture
def learned(tiny, tmp_path, go):
    """A run that has learned some objectives for two steps."""

    def make(*objectives, **settings):
        terms = tuple(Term(objective=each) for each in objectives)
        resolved = tiny(objective=terms, steps=2, eval_every=2, **settings)
        go(resolved)
        return tmp_path / "run"

    return make


def test_a_generator_answers(learned):
    folder = learned(Rtd(), Mlm(), generator=GeneratorNetwork(size=0.5))
    found = fill(folder, "Hens [MASK] and ducks [MASK].", top=2)
    assert len(found.masks) == 2
    assert "note: the generator predicts the masks" in found.summary()


def test_a_judge_alone_fills_nothing(learned):
    folder = learned(Rtd(), generator=UnigramGenerator())
    with pytest.raises(UsageError, match="not to predict masked ones"):
        fill(folder, "Hens [MASK].")


@pytest.mark.parametrize("memory", [0, 8])
def test_a_causal_model_tells_the_next_token(learned, memory):
    settings = {"attention": RelativeAttention(), "memory": memory} if memory else {}
    folder = learned(Clm(), **settings)
    found = fill(folder, "Hens cackle in the old", top=3)
    assert found == fill(folder, "Hens cackle in the old", top=3)
    assert found.masks == fill(folder, "Hens cackle in the old [MASK]", top=3).masks
    assert [len(candidates) for candidates in found.masks] == [3]
    with pytest.raises(UsageError, match="only the next token"):
        fill(folder, "Hens [MASK] in the barn")
    with pytest.raises(UsageError, match="empty"):
        fill(folder, " ")


def test_a_permutation_model_fills_masks_that_no_other_token_sees(learned):
    folder = learned(Plm(), attention=RelativeAttention(untie=True, segments=True))
    found = fill(folder, "Hens [MASK] in the [MASK] barn")
    assert len(found.masks) == 2
    assert not found.notes
    # What stands at a mask is not seen: by itself it changes no prediction.
    model = load(folder)
    seen: list[EncoderInputs] = []
    real = model.read

    def watched(reading, network="encoder"):
        seen.append(reading)
        return real(reading, network)

    model.read = watched
    vocabulary = load_vocabulary(TokenizerFile(path=str(folder / "tokenizer")))
    mask = vocabulary.mask
    reader = _Reader(model, vocabulary, 0)
    expected = reader.masked([7, mask, 8, mask, 9], [1], Plm())
    order, ids = seen[0].permutation, seen[0].token_ids
    assert order is not None
    other = torch.where(ids == mask, 11, ids)
    with torch.inference_mode():
        hidden = real(seen[0]._replace(token_ids=other))[:, -1]
        scores = token_logits(hidden, model.heads["plm"], model.encoder)
        torch.testing.assert_close(scores, expected)


def test_a_run_without_tokens_to_tell(learned):
    with pytest.raises(DataError, match="was trained with nsp"):
        fill(learned(Nsp()), "Hens [MASK].")
