"""Files for the leaderboards."""

import json

from bertc.data.layouts.example import QuestionExample
from bertc.data.metrics.spans import AnswerCandidate, Decoded
from bertc.use.predict import glue, squad


def test_files_of_glue() -> None:
    assert glue("rte", ["entailment", "not_entailment"], "test") == {
        "RTE.tsv": "index\tprediction\n0\tentailment\n1\tnot_entailment\n"
    }
    assert glue("stsb", [1.23456, 5.2, -0.1], "test") == {
        "STS-B.tsv": "index\tprediction\n0\t1.235\n1\t5.000\n2\t0.000\n"
    }
    assert set(glue("mnli", [], "test_matched.tsv")) == {"MNLI-m.tsv"}
    assert set(glue("mnli", [], "test_mismatched.tsv")) == {"MNLI-mm.tsv"}


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
