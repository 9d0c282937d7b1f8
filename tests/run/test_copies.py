"""Runs on copies of their examples: masked words of trained runs, steps, resuming."""

from functools import partial

import pytest
import torch

from bertc.api import check, points, resolve
from bertc.base.diagnostics import DataError, SpecError
from bertc.run.evaluation.word_networks import TrainedNetworks
from bertc.run.models.loading import load
from bertc.run.train.loop import train
from bertc.tasks.corpus import prepare
from bertc.tasks.examples.copies import split_text
from bertc.text.cache.store import Silent
from tests.net.programs import spec
from tests.run.conftest import same_tensors, stop_after

pytestmark = pytest.mark.usefixtures("in_the_farm")

SENTENCES = ("the old hens sit in the gate", "the ducks", "")


@pytest.fixture
def both(farm_run):
    """Copies by edits, and by a masked-language model of a few steps."""
    return f'2*edit(mask=40%) + replace("{farm_run(spec("mlm"))}", share=50%)'


def test_masked_words_are_read_with_their_text(farm_run):
    """The likeliest of one row, computed by hand, with the text as its second."""
    networks, folder = TrainedNetworks("cpu"), farm_run(spec("mlm"))
    split = [split_text(sentence) for sentence in SENTENCES]
    places = [[1, 2], [1], []]
    found = [*networks.candidates(str(folder), split, places, 5, Silent())]
    model, vocabulary = networks._loaded(str(folder))
    ids = vocabulary.tokenizer.encode(SENTENCES[1], add_special_tokens=False).ids
    assert len(ids) == 2, "both words are one piece"
    row = [vocabulary.cls, ids[0], vocabulary.mask, vocabulary.sep, *ids, vocabulary.sep]
    segments = torch.tensor([[0, 0, 0, 0, 1, 1, 1]])
    state = model.encode(torch.tensor([row]), segments)[0, 2]
    head, table = model.heads["mlm"], model.encoder.tokens.weight
    scores = head.scores(state[None], table)[0]
    tokens = [vocabulary.token(int(token)) for token in scores.topk(5).indices]
    words = tuple(t for t in tokens if t[0] not in "[#")
    assert found[1] == ({1: words} if words else {})
    assert found[2] == {}
    with pytest.raises(DataError, match="no head that predicts masked tokens"):
        next(networks.candidates(str(farm_run(spec("tagging"))), split, places, 5, Silent()))


def test_a_run_on_copies_goes_on_to_the_bit(both, tmp_path, monkeypatch, go):
    task = 'glue(sst2, "SST-2", dropout=0)'
    (resolved,) = points(spec("glue", objective=task, augment=both, steps="4"))
    go(resolved, "straight")
    stop_after(monkeypatch, 2, partial(go, resolved))
    train(resolved, tmp_path / "run", cache=tmp_path / "other", quiet=True, resume=True)
    same_tensors(*(load(tmp_path / each).state_dict() for each in ("straight", "run")))


def test_copies_are_examples_like_others(both, tmp_path):
    (resolved,) = points(spec("glue", augment=both))
    networks = TrainedNetworks("cpu")
    data = prepare(resolved, tmp_path, Silent(), networks).stages[0]
    (task_set,) = data.sets
    assert 48 + 72 < task_set.units <= 48 + 2 * 48 + 24
    mask = data.vocabulary.mask
    ids, begins = task_set.train.token_ids, task_set.train.begins
    masked = [mask in ids[slice(*begins[row : row + 2])] for row in range(task_set.units)]
    assert any(masked)
    assert not any(masked[:48])


def test_an_epoch_has_the_copies_too():
    task = 'task=glue(rte, "RTE", examples=100) batch=10 epochs=2'
    assert resolve(task).stages[0].steps == 20
    assert "augment" not in resolve(task).model_dump(mode="json")["stages"][0]
    assert resolve(f"{task} augment=2*edit(share=50%)").stages[0].steps == 40
    staged = 'stage "rte" { task=glue(rte, "RTE", examples=100) batch=10 epochs=2 }'
    staged = resolve(f'augment=edit stage "text" {{ steps=5 }} {staged}')
    assert [stage.steps for stage in staged.stages] == [5, 40]
    assert [stage.augment[0].copies.kind for stage in staged.stages] == ["none", "edit"]


def test_missing_networks_and_vectors_are_reported_by_check():
    augment = 'augment=edit + replace("runs/y", vectors="w.txt")'
    spec = f'task=glue(rte, "RTE") init=vectors("v.txt") {augment}'
    refused = pytest.raises(SpecError, check, spec)
    assert [each.message for each in refused.value.diagnostics] == [
        "there is no file v.txt", "there is no folder runs/y", "there is no file w.txt",
    ]  # fmt: skip
