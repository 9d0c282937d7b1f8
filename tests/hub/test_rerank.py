"""Rerankers: lists and pairs, their losses and ranks, and folders of CrossEncoder."""

import json
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import bertc
from bertc.base.diagnostics import DataError
from bertc.ir.learning.vector_task import Rerank
from bertc.run.evaluation.word_networks import TrainedNetworks
from bertc.run.models.runs import export_run, import_run
from bertc.tasks.layouts.example import TextExample
from bertc.tasks.metrics.metrics import judge
from tests.hub.hf_models import respell
from tests.hub.test_sentences import NOTHING_SAID, folder_of

PAIRS = [("a b", "b"), ("c", "d e f"), ("g h", "")]
LISTS = "query\tgood\tbad\na b\tb c\td\nc d\td\te f\n"
GRADED = "query\tpassage\tlabel\na b\tb c\t1\na b\td\t0.5\nc d\td\t0\n"
SPECS = {
    "lists": "rerank('lists.tsv', 'lists.tsv', positive=good, negative=bad)",
    "judged on pairs": "rerank('lists.tsv', 'graded.tsv', positive=good, negative=bad)",
    "mined": "rerank('lists.tsv', 'graded.tsv', positive=good, negatives=mined('came'))",
    "pairs": "rerank('graded.tsv', 'graded.tsv', activation=identity)",
}


@pytest.mark.parametrize("name", SPECS)
def test_a_reranker_leaves_as_a_cross_encoder_and_comes_back(name, tmp_path, monkeypatch):
    from sentence_transformers import CrossEncoder

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BERTC_CACHE", str(tmp_path / "cache"))
    folder_of(tmp_path / "came", NOTHING_SAID)
    Path("lists.tsv").write_text(LISTS)
    Path("graded.tsv").write_text(GRADED)
    spec = f"init='came' task={SPECS[name]} steps=2 batch=2 seq=20 device=cpu precision=fp32"
    report = bertc.train(f"{spec} compile=off", tmp_path / "run")
    (scores,) = report.evaluation.scores.values()
    assert scores["dev"].keys() == {"ndcg@10", "mrr@10", "map"}
    found = [row["score"] for row in bertc.load(tmp_path / "run").predict(PAIRS)]
    judged = np.array(TrainedNetworks("cpu").judged(str(tmp_path / "run"), PAIRS))
    scores = found if name != "pairs" else 1 / (1 + np.exp(-np.array(found)))
    np.testing.assert_allclose(judged, scores, atol=2e-6)
    left = export_run(tmp_path / "run", tmp_path / "left").folder
    library = CrossEncoder(str(left), device="cpu")
    assert library.tokenizer.model_max_length == 20, "it cuts where the run does"
    expected = library.predict(PAIRS)
    np.testing.assert_allclose(found, expected, atol=2e-6)
    with pytest.raises(DataError, match="has learned no task that ranks passages"):
        TrainedNetworks("cpu").judged("came", PAIRS)
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
        notes = import_run(tmp_path / named, tmp_path / f"{named} run").imported.notes
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
