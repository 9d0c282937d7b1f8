"""Files for the leaderboards, and GLUE's average beside published rows."""

import json

import pytest

from bertc.data.layouts.example import QuestionExample
from bertc.data.metrics.spans import AnswerCandidate, Decoded
from bertc.data.metrics.submit import glue, glue_average, squad

BERT_LARGE = {
    "cola": {"mcc": 0.605, "accuracy": 0.8},
    "sst2": {"accuracy": 0.949},
    "mrpc": {"f1": 0.893, "accuracy": 0.854},
    "stsb": {"pearson": 0.876, "spearman": 0.865},
    "qqp": {"f1": 0.721, "accuracy": 0.893},
    "mnli": {"accuracy": 0.867},
    "mnli-mm": {"accuracy": 0.859},
    "qnli": {"accuracy": 0.927},
    "rte": {"accuracy": 0.701},
    "wnli": {"accuracy": 0.651},
    "ax": {"mcc": 0.396, "accuracy": 0.7},
}
"""Its row on the leaderboard, where its score is 80.5."""


def test_the_average_is_the_leaderboards() -> None:
    assert round(100 * glue_average(BERT_LARGE), 1) == 80.5
    eight = {task: values for task, values in BERT_LARGE.items() if task != "wnli"}
    assert glue_average(eight) == pytest.approx((9 * glue_average(BERT_LARGE) - 0.651) / 8)
    assert glue_average({"rte": {"accuracy": 0.5}, "squad": {"em": 1.0}}) == 0.5


def test_files_of_glue() -> None:
    assert glue("rte", ["entailment", "not_entailment"]) == {
        "RTE.tsv": "index\tprediction\n0\tentailment\n1\tnot_entailment\n"
    }
    assert glue("stsb", [1.23456, 5.2, -0.1]) == {
        "STS-B.tsv": "index\tprediction\n0\t1.235\n1\t5.000\n2\t0.000\n"
    }
    assert set(glue("mnli", [])) == {"MNLI-m.tsv"}


def test_files_of_squad() -> None:
    best = (AnswerCandidate("café", 3.0, 0.75), AnswerCandidate("", 1.9, 0.25))
    asked = [QuestionExample(key, "", "?", (), None) for key in ("a", "b")]
    decoded = [Decoded("café", "café", -1.1, best), Decoded("", "no", 2.0, ())]
    files = {name: json.loads(text) for name, text in squad(asked, decoded, True).items()}
    assert files == {
        "predictions.json": {"a": "café", "b": ""},
        "nbest_predictions.json": {
            "a": [
                {"text": "café", "score": 3.0, "probability": 0.75},
                {"text": "", "score": 1.9, "probability": 0.25},
            ],
            "b": [],
        },
        "null_odds.json": {"a": -1.1, "b": 2.0},
    }
    assert set(squad(asked, decoded, False)) == {"predictions.json", "nbest_predictions.json"}
