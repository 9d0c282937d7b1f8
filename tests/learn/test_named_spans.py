"""Spans by name beside the gliner package: its scores, its loss, and its folders both ways.

``named_spans.json`` is made by ``tests/campaigns/spans_by_name.py``, with the same weights.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import bertc
from bertc.base.diagnostics import DataError
from bertc.hub.families.bert import BERT
from bertc.hub.gliner import class_of
from bertc.hub.keys import keys, prefix_key
from bertc.ir.program import model_weights
from bertc.learn.step.feed import to_micro_batch
from bertc.run.evaluation.task_inference import outputs
from bertc.run.evaluation.task_lookup import task_of
from bertc.run.models.runs import import_run
from bertc.tasks.examples.encode import encode
from bertc.tasks.examples.task import gather
from bertc.tasks.layouts.example import TaggedExample
from tests.campaigns.spans_by_name import NAMES, SETTINGS, TAGGED, values, write_settings

GOLDEN = json.loads(Path(__file__).with_name("named_spans.json").read_text())
NETWORK = "layers=1 hidden=8 heads=2 ffn=16 seq=64 pooler=transform vocab=16 steps=1 "


@pytest.fixture
def folder(tmp_path):
    """A folder as the gliner package writes it, without ``config.json``."""
    write_settings(at := tmp_path / "theirs")
    resolved = bertc.resolve(NETWORK + "task=spans(units=6, widest=4, labels=[a], examples=9)")
    shapes = {w.name: w.shape for w in model_weights(resolved)}
    theirs, of = class_of("spans"), {}
    for name, key in keys(BERT, resolved.encoder, shapes, theirs.named).items():
        key = prefix_key(BERT, theirs, name, key)
        of[key] = torch.tensor(values(key, math.prod(shapes[name]))).view(shapes[name])
    save_file(of, at / "model.safetensors")
    return at


def test_scores_losses_and_answers_are_those_of_gliner_and_its_folder_comes_and_goes(
    folder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    import_run(folder, Path("mine"))
    model = bertc.load("mine")
    stage, task = task_of(model.resolved, "")
    tagged = [TaggedExample(t, (*t.split(),), (*tags.split(),)) for t, tags in TAGGED.items()]
    rows = encode(task.judged, tagged, model.tokenizer.vocabulary, 64, 2)
    batch = to_micro_batch(gather(task.judged, rows, np.arange(3), 0), torch.device("cpu"))
    with torch.no_grad():
        scores, sums = outputs(model, stage, task.judged, batch)
    expected = torch.tensor(GOLDEN["scores"])
    by_span = scores.transpose(2, 3)
    torch.testing.assert_close(by_span[by_span > -600].view(-1, 3), expected, atol=1e-5, rtol=0)
    assert float(sums[0]) == pytest.approx(GOLDEN["loss"], rel=1e-5)
    (answer,) = model.predict(["ann lee of oslo sang."], f"spans(labels={NAMES})")
    scored = [{**s, "score": pytest.approx(s["probability"], abs=1e-5)} for s in answer["spans"]]
    found = [{name: s[name] for name in GOLDEN["found"][0]} for s in scored]
    assert found == GOLDEN["found"]
    left = json.loads(Path("mine/model/gliner_config.json").read_text())
    assert {n for n, value in SETTINGS.items() if left[n] != value} == {"encoder_config", "name"}
    assert left["encoder_config"].items() >= SETTINGS["encoder_config"].items()
    before, after = (load_file(at / "model.safetensors") for at in (folder, Path("mine/model")))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    with pytest.raises(DataError, match="spans: no labels to find"):
        model.predict(["ann lee"])


@pytest.mark.parametrize(("change", "message"), [
    ({"span_mode": "token_level"}, 'span_mode = "token_level"'),
    ({"max_width": 0}, "max_width = 0"),
    ({"encoder_config": None}, "no encoder_config"),
])  # fmt: skip
def test_a_folder_of_another_architecture_is_refused(folder, tmp_path, change, message):
    (folder / "gliner_config.json").write_text(json.dumps({**SETTINGS, **change}))
    pytest.raises(DataError, import_run, folder, tmp_path / "mine").match(message)
