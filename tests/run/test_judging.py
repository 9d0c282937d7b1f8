"""What is told of a model that has one answer to everything."""

import pytest

import bertc
from bertc.run.evaluation.held_out import Evaluation
from bertc.run.evaluation.remarks import score_lines
from bertc.run.evaluation.tasks import evaluate_files
from bertc.run.train.loop import train


@pytest.fixture
def biased(tmp_path, corpus_file):
    """A classifier that has seen one label alone, in a file whose dev part has both."""
    for part, labels in (("train", ["no"] * 20), ("dev", ["no", "yes"])):
        rows = "".join(f"the ducks sit on tree {i}\t{label}\n" for i, label in enumerate(labels))
        (tmp_path / f"{part}.tsv").write_text(f"text\tlabel\n{rows}")
    task = f"classify('{tmp_path}/train.tsv', '{tmp_path}/dev.tsv', labels=[no, yes])"
    spec = (
        f"layers=1 hidden=16 heads=2 vocab=wordpiece(120) task={task} steps=10 batch=8 seq=16 "
        f"data=files('{corpus_file}') device=cpu compile=off optimizer=adam(lr=1e-2, warmup=0)"
    )
    cache = tmp_path / "cache"
    return train(bertc.resolve(spec), tmp_path / "run", cache=cache, quiet=True), tmp_path / "run"


def test_one_answer_to_everything_is_told(biased):
    report, run = biased
    assert report.evaluation.always == {"classify": {"dev": "no"}}
    assert report.evaluation.scores["classify"]["dev"]["accuracy"] == 0.5
    assert "classify dev: every example got the answer `no`\n" in report.summary()
    assert '"always": {"classify": {"dev": "no"}}' in (run / "metrics.jsonl").read_text()
    assert evaluate_files(run, "")[0].always == {"classify": {"dev": "no"}}


def test_no_answer_is_one_too():
    scores = {"squad": {"dev": {"em": 0.5}, "other": {"em": 0.25}}}
    found = Evaluation(1.0, {}, {}, 2, scores=scores, always={"squad": {"dev": ""}})
    assert score_lines(found) == [
        "squad dev: em 0.5000 (every example got no answer)",
        "squad other: em 0.2500",
    ]
