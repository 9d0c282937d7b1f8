"""What a run is good for afterwards, eval and fill; and its examples as a person reads them."""

import inspect
import io
import json
import logging
import shutil
import signal
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

import bertc
from bertc import lab_api
from bertc.api import points, resolve
from bertc.base.diagnostics import DataError, MissingInputError, StoppedError, UsageError
from bertc.ir.learning.objective import Plm
from bertc.ir.vocabulary import TokenizerFile
from bertc.learn.objectives import token_logits
from bertc.run.evaluation import evaluate as evaluating
from bertc.run.evaluation.evaluate import evaluate_run
from bertc.run.models.loading import load
from bertc.run.models.runs import model_after
from bertc.text.vocab.vocabulary import Vocabulary, load_vocabulary
from bertc.use import fill_mask as filling
from bertc.use.fill_mask import fill
from bertc.use.preview import preview
from tests.kinds import OBJECTIVES
from tests.net.programs import FARM, copied
from tests.run.conftest import lines
from tests.shipped import PRETRAINING


def test_eval_repeats_the_last_evaluation_of_the_run(finished, cache):
    report = evaluate_run(finished, cache=cache, quiet=True)
    last = lines(finished, "eval")[-1]
    assert report.evaluation.loss == pytest.approx(last["loss"], rel=1e-6)
    assert report.evaluation.unigram_loss == pytest.approx(last["unigram_loss"])
    assert report.step == 12
    assert json.loads(report.as_json())["evaluation"]["losses"].keys() == last["losses"].keys()
    assert report.evaluation.base_rate == {}
    assert report.notes[-1] == "read in full-sentences rows of 24 tokens"


def test_a_stopped_evaluation_begins_again(finished, cache, monkeypatch):
    monkeypatch.setattr(evaluating, "heldout_sizes", lambda *_: signal.raise_signal(signal.SIGTERM))
    monkeypatch.setattr(evaluating, "fetch", lambda *_: [None])
    stopped = pytest.raises(StoppedError, evaluate_run, finished, cache=cache, quiet=True)
    assert stopped.value.help == "the same command begins again"


def test_eval_refuses_other_text_and_no_run(finished, corpus_file, cache, tmp_path):
    before = corpus_file.read_text()
    corpus_file.write_text(before + "\nOne more.\n")
    try:
        with pytest.raises(DataError, match="text files have changed"):
            evaluate_run(finished, cache=cache, quiet=True)
    finally:
        corpus_file.write_text(before)
    pytest.raises(MissingInputError, evaluate_run, tmp_path, quiet=True).match("holds no run")


@pytest.mark.usefixtures("at_home")
def test_in_another_folder_a_run_names_that_of_its_files(call, tmp_path, corpus_file, monkeypatch):
    home, away = tmp_path, tmp_path / "away"
    away.mkdir()
    (home / "rows.tsv").write_text("text\tlabel\n" + "a hen\tx\na duck\ty\n" * 8)
    spec = f"layers=1 hidden=32 heads=2 data=files('{corpus_file}') vocab=wordpiece(99) seq=16 "
    spec += "batch=4 steps=2 device=cpu task=classify('rows.tsv', 'rows.tsv')"
    assert call("train", spec, "--out", "runs/a")[0] == 0
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
    shown, logger = io.StringIO(), logging.getLogger(load.__module__)
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler(shown)])
    fill(copy, "Hens [MASK] and ducks [MASK].", top=3)
    model_after(copy, 0)  # once, however often it is looked for
    said = f"12 in {newest.parent} are damaged: those after step {older.name[-1]}"
    assert shown.getvalue().count(said) == 1


def test_fill_gives_the_likeliest_tokens_of_each_mask_around_which_it_reads(finished, monkeypatch):
    found = fill(finished, "Hens [MASK] and ducks [MASK].", top=3)
    assert len(found.masks) == 2
    for candidates in found.masks:
        probabilities = [c.probability for c in candidates]
        assert len(probabilities) == 3
        assert probabilities == sorted(probabilities, reverse=True)
        assert 0 < sum(probabilities) <= 1
    assert found.summary().startswith("mask 1:\n")
    assert json.loads(found.as_json())["masks"][0][0].keys() == {"token", "probability"}
    pytest.raises(UsageError, fill, finished, "Hens cackle.").match("no \\[MASK\\]")
    # Every mask stands in its own row, inside it, with as much text as fits.
    text, watched = "Hens cackle. " * 40, Mock(wraps=filling.masked_scores)
    monkeypatch.setattr(filling, "masked_scores", watched)
    found = fill(finished, f"[MASK] {text} [MASK] {text} [MASK]", top=1)
    assert len(found.masks) == 3
    (rows,) = (call.args[2] for call in watched.call_args_list)
    assert len(rows) == 3


def test_messages_spell_the_mask_as_the_vocabulary_does(finished, monkeypatch):
    monkeypatch.setattr(Vocabulary, "token", lambda *_: "<mask>")
    pytest.raises(UsageError, fill, finished, "Hens and ducks.").match("the text has no <mask>")


@pytest.fixture
def learned(tiny, tmp_path, go):
    """A run that has learned some objectives for two steps."""

    def make(objective, more=""):
        go(tiny(f"objective={objective} steps=2 eval_every=2 {more}"))
        return tmp_path / "run"

    return make


def test_a_generator_answers(learned):
    found = fill(learned("rtd+mlm", "generator=0.5"), "Hens [MASK] and ducks [MASK].", top=2)
    assert len(found.masks) == 2
    assert "note: the generator predicts the masks" in found.summary()


def test_a_judge_alone_fills_nothing(learned):
    folder = learned("rtd", "generator=unigram")
    pytest.raises(UsageError, fill, folder, "Hens [MASK].").match("not to predict masked ones")


@pytest.mark.parametrize("memory", [0, 8])
def test_a_causal_model_tells_the_next_token(learned, memory):
    folder = learned("clm", f"attention=relative memory={memory}" * bool(memory))
    found = fill(folder, "Hens cackle in the old", top=3)
    assert found == fill(folder, "Hens cackle in the old", top=3)
    assert found.masks == fill(folder, "Hens cackle in the old [MASK]", top=3).masks
    assert [len(candidates) for candidates in found.masks] == [3]
    pytest.raises(UsageError, fill, folder, "Hens [MASK] in the barn").match("only the next token")
    pytest.raises(UsageError, fill, folder, " ").match("empty")


def test_a_permutation_model_fills_masks_that_no_other_token_sees(learned):
    folder = learned("plm", "attention=relative(untie=true, segments=true)")
    found = fill(folder, "Hens [MASK] in the [MASK] barn")
    assert len(found.masks) == 2
    assert not found.notes
    # What stands at a mask is not seen: by itself it changes no prediction.
    model = load(folder)
    real, model.read = model.read, Mock(wraps=model.read)
    vocabulary = load_vocabulary(TokenizerFile(path=str(folder / "tokenizer")))
    mask = vocabulary.mask
    rows = filling._rows(model, vocabulary, [7, mask, 8, mask, 9], [1])
    ((part, inputs),) = filling.in_batches(model, rows)
    expected = filling.masked_scores(model, Plm(), part, inputs, mask)
    seen = model.read.call_args_list[0].args[0]
    assert seen.permutation is not None
    other = torch.where(seen.token_ids == mask, 11, seen.token_ids)
    with torch.inference_mode():
        hidden = real(seen._replace(token_ids=other))[:, -1]
        scores = token_logits(hidden, model.heads["plm"], model.encoder)
        torch.testing.assert_close(scores, expected)


def test_a_run_without_tokens_to_tell(learned):
    pytest.raises(DataError, fill, learned("nsp"), "Hens [MASK].").match("was trained with nsp")


TOY = ("layers=1 hidden=16 heads=2 seq=32 batch=4 steps=2 vocab=wordpiece(500) holdout=0.2 "
       "device=cpu")  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The files that the small specs name."""
    folder = tmp_path_factory.mktemp("texts")
    copied(FARM, folder)
    (folder / "farm.txt").rename(folder / "a.txt")
    return folder


def shown(objective, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("BERTC_CACHE", str(folder / "cache"))
    data = "" if "data=" in objective else "data=files('a.txt', sentences=lines)"
    resolved = resolve(f"{TOY} {objective} {data}")
    return resolved.stages[0], preview(resolved, 4, color=False)


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_a_preview_tells_what_every_term_asks(objective, folder, monkeypatch):
    stage, text = shown(objective, folder, monkeypatch)
    assert text.count("row ") >= 2
    for term in stage.objective:
        assert f"  {term.objective.kind}: " in text
    pairs = [line for line in text.splitlines() if line.startswith(("  A ", "  B "))]
    assert bool(pairs) == ("pair" in stage.format.kind or stage.translates)


READ = {
    "pretraining": "objective=mlm(p=15%)",
    "a task": "task=classify('t.tsv', labels=[\"b\u001b[31mad\\u{202e}\", good])",
}


@pytest.mark.parametrize("spec", READ.values(), ids=READ)
def test_pieces_of_bytes_are_read_as_text_and_labels_act_on_no_terminal(spec, tmp_path, at_home):
    line = "настройки zufügen größer, настройка \u202e\x9b"
    (tmp_path / "t.txt").write_text(f"{line}\n\n" * 40)
    label = "b\x1b[31mad\u202e"
    (tmp_path / "t.tsv").write_text("text\tlabel\n" + f"{line}\t{label}\n{line}\tgood\n" * 20)
    toy = TOY.replace("wordpiece(500)", "bpe(500)")
    text = preview(resolve(f"{toy} data=files('t.txt', sentences=lines) {spec}"), 2, color=True)
    assert "▁zufügen" in text
    assert "настро" in text
    assert not {"Ð", "Ã", "Ġ", "\u202e", "\x9b"} & {*text}
    assert "\x1b" not in text.replace("\x1b[1m", "").replace("\x1b[0m", "")


def test_a_stream_pair_ends_with_a_segment_of_its_own(folder, monkeypatch):
    _, text = shown(OBJECTIVES["xlnet"], folder, monkeypatch)
    assert [line for line in text.splitlines() if line == "  C [CLS]"]
    assert "row 1, 32 tokens, read from its end to its beginning" in text


def test_the_small_specs_stand_for_every_shipped_one():
    small = [resolve(f"{TOY} {each}").stages[0] for each in OBJECTIVES.values()]
    formats, sums = {each.format.kind for each in small}, {kinds(each) for each in small}
    for name in PRETRAINING:
        stages = [stage for point in points(name) for stage in point.stages]
        assert {stage.format.kind for stage in stages} <= formats, name
        assert {kinds(stage) for stage in stages} <= sums, name


def kinds(stage):
    """The terms of an objective, in whatever order."""
    return frozenset(term.objective.kind for term in stage.objective)
