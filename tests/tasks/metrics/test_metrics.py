"""Metrics, calibration and thresholds next to the libraries or formulas that define them."""

import math
from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
import pytest
from scipy import stats
from seqeval.metrics import classification_report as seqeval_report, f1_score as seqeval_f1
from sklearn import metrics as sklearn_metrics

from bertc.base.diagnostics import DataError
from bertc.ir.learning.custom_task import Choose, Classify, Many, Regress, Tag
from bertc.ir.learning.task import Glue, Squad
from bertc.tasks.layouts.example import ChoiceExample, QuestionExample, TaggedExample, TextExample
from bertc.tasks.metrics import calibration
from bertc.tasks.metrics.calibration import NO_FIT, HeadFit, best_threshold, expected_error, fitted
from bertc.tasks.metrics.metrics import ByClass, by_class, judge, spans


@pytest.mark.parametrize("several", [False, True])
def test_a_temperature_undoes_scores_that_are_too_sure(several: bool) -> None:
    rng = np.random.default_rng(1)
    true_nc = rng.normal(size=(4000, 3))
    parts_nc = calibration.probabilities(true_nc, several, NO_FIT)
    if several:
        right_nc = (rng.random(true_nc.shape) < parts_nc).astype(float)
    else:
        drawn_n = (rng.random((4000, 1)) > parts_nc.cumsum(1)).sum(1)
        right_nc = np.eye(3)[drawn_n.clip(0, 2)]
    fit = fitted(3 * true_nc, right_nc, several)
    assert fit.temperature == pytest.approx(3, rel=0.1)
    sure, calm = (
        expected_error(calibration.probabilities(3 * true_nc, several, of), right_nc, several)
        for of in (NO_FIT, HeadFit(fit.temperature))
    )
    assert calm < 0.04 < 0.1 < sure
    assert len(fit.thresholds) == (3 if several else 0)


def test_the_expected_error_is_by_bins_of_answers_and_a_temperature_that_raises_it_goes() -> None:
    rng = np.random.default_rng(3)
    right_nc = (rng.random((400, 2)) < 0.3).astype(float)
    scores_nc = np.log(0.3 / 0.7) + np.where(rng.random((400, 2)) < 0.02, 6, -0.1) * (1 - right_nc)
    assert fitted(scores_nc, right_nc, several=True).temperature == 1
    assert fitted(np.eye(4), np.eye(4), several=False).temperature == 1, "all answers are right"
    parts_nc = np.array([[0.9, 0.1], [0.92, 0.08], [0.3, 0.7]])
    right_nc = np.array([[1.0, 0], [0, 1], [0, 1]])
    # 0.9 and 0.92 are in one bin, half right; 0.7 is right.
    assert expected_error(parts_nc, right_nc, False) == pytest.approx((0.41 * 2 + 0.3) / 3)


def test_a_threshold_has_the_best_f1_of_all() -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        parts_n, right_n = rng.integers(1, 9, 12) / 10, (rng.random(12) < 0.4).astype(float)

        def f1(least: float, parts_n=parts_n, right_n=right_n) -> float:  # type: ignore[no-untyped-def]
            given_n = parts_n > least
            return float(2 * (given_n * right_n).sum() / max(1, given_n.sum() + right_n.sum()))

        best = best_threshold(parts_n, right_n)
        assert f1(best) == max(f1(least) for least in np.arange(0, 1, 0.05))
    assert best_threshold(np.ones(3), np.zeros(3)) == 0.5


COLA, MRPC, AX, STSB = (Glue(task=name, data="x") for name in ("cola", "mrpc", "ax", "stsb"))
NAMES = ("contradiction", "entailment", "neutral")
TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-A-B", "I-A-B")
CASES = range(80)


def answered(answers: Sequence[str | float]) -> list[Any]:
    return [TextExample(str(row), ("a", "b"), answer) for row, answer in enumerate(answers)]


def drawn(seed: int, kinds: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Labels and answers of any agreement, so that both sides may be of one kind alone."""
    rng = np.random.default_rng(seed)
    size, share = int(rng.integers(1, 60)), rng.random()
    right = rng.choice(kinds, size, p=rng.dirichlet(np.ones(len(kinds))))
    other = rng.choice(kinds, size)
    return right.tolist(), np.where(rng.random(size) < share, right, other).tolist()


@pytest.mark.filterwarnings("ignore::UserWarning:sklearn")
def test_labels_are_judged_as_by_scikit_learn() -> None:
    for seed in CASES:
        for task, names in ((COLA, ("0", "1")), (MRPC, ("0", "1")), (AX, NAMES)):
            right, said = drawn(seed, names)
            reference = {"accuracy": sklearn_metrics.accuracy_score(right, said)}
            if task == MRPC:
                f1 = sklearn_metrics.f1_score(right, said, pos_label="1", zero_division=0)
                reference["f1"] = f1
            else:
                reference["mcc"] = sklearn_metrics.matthews_corrcoef(right, said)
            assert judge(task, answered(right), said) == pytest.approx(reference, abs=1e-6)


def test_scores_are_judged_as_by_scipy() -> None:
    for seed in CASES:
        rng = np.random.default_rng(seed)
        size = int(rng.integers(2, 60))
        right = np.round(rng.uniform(0, 5, size), int(rng.integers(0, 3)))
        said = rng.random() * right + rng.normal(size=size)
        if seed % 2:  # so that there are ties
            said = np.round(said)
        if len(set(right)) == 1 or len(set(said)) == 1:
            continue
        found = judge(STSB, answered(right.tolist()), said.tolist())
        both = (how(right, said).statistic for how in (stats.pearsonr, stats.spearmanr))
        pearson, spearman = both
        assert found == pytest.approx({"pearson": pearson, "spearman": spearman}, abs=1e-12)


@pytest.mark.filterwarnings("ignore::UserWarning:seqeval")
def test_tags_are_judged_as_by_seqeval() -> None:
    for seed in CASES:
        rng = np.random.default_rng(seed)
        right, said = [], []
        for _ in range(int(rng.integers(1, 5))):
            known = rng.choice(TAGS, int(rng.integers(1, 15)))
            changed = np.where(rng.random(len(known)) < rng.random(), rng.choice(TAGS), known)
            right.append(tuple(known.tolist()))
            said.append(tuple(changed.tolist()))
        reference = seqeval_f1([*map(list, right)], [*map(list, said)], zero_division=0)
        examples = [TaggedExample("0", ("a",) * len(tags), tags) for tags in right]
        ours = judge(Tag(train="x.tsv", labels=TAGS), examples, said)["span_f1"]
        assert ours == pytest.approx(reference, abs=1e-12)


def test_classes_are_judged_as_by_scikit_learn_and_seqeval() -> None:
    classify = Classify(train="x.tsv", labels=NAMES)
    spans_task = Tag(train="x.tsv", labels=TAGS)
    words = Tag(train="x.tsv", labels=NAMES)
    for seed in range(40):
        right, said = drawn(seed, NAMES)
        asked: Any = {"output_dict": True, "zero_division": 0}
        reference = sklearn_metrics.classification_report(right, said, **asked)
        same(by_class(classify, answered(right), said), reference)
        tagged = [TaggedExample("0", ("a",) * len(right), tuple(right))]
        same(by_class(words, tagged, [tuple(said)]), reference)
        right, said = drawn(seed, TAGS)
        tagged = [TaggedExample("0", ("a",) * len(right), tuple(right))]
        found = by_class(spans_task, tagged, [tuple(said)])
        assert (found is None) == (not spans(right) | spans(said)), "no span on either side"
        if found:
            same(found, seqeval_report([right], [said], **asked))
    assert by_class(STSB, answered([1.0]), [1.0]) is None


def test_several_labels_are_judged_as_by_scikit_learn() -> None:
    task = Classify(train="x.tsv", labels=Many(names=NAMES))
    for seed in range(40):
        flags = np.random.default_rng(seed).random((2, 7, 3)) < 0.5
        right, said = (
            [tuple(name for name, yes in zip(NAMES, row, strict=True) if yes) for row in side]
            for side in flags
        )
        known = [TextExample(str(n), ("a",), names[::-1]) for n, names in enumerate(right)]
        ours = judge(task, known, said)
        for average in ("micro", "macro"):
            reference = sklearn_metrics.f1_score(*flags, average=average, zero_division=0)
            assert ours[f"{average}_f1"] == pytest.approx(reference)
        assert ours["accuracy"] == pytest.approx(sklearn_metrics.accuracy_score(*flags))
        by_label = by_class(task, known, said)
        wanted = sklearn_metrics.f1_score(*flags, average=None, zero_division=0)
        assert by_label
        for name, f1 in zip(NAMES, wanted, strict=True):
            assert by_label.classes.get(name, by_label).__dict__.get("f1", 0) == pytest.approx(f1)


def same(ours: ByClass | None, reference: Any) -> None:
    assert ours.macro_f1 == pytest.approx(reference["macro avg"]["f1-score"])
    averages = ("accuracy", "micro avg", "macro avg", "weighted avg")
    assert [*ours.classes] == sorted(reference.keys() - {*averages})
    for name, of in ours.classes.items():
        names = ("precision", "recall", "f1-score", "support")
        assert astuple(of) == pytest.approx([reference[name][each] for each in names]), name


@pytest.mark.parametrize(("tags", "found"), [
    ("", set()), ("O O", set()), ("B-X I-X O B-X", {("X", 0, 1), ("X", 3, 3)}),
    ("B-X B-X I-X", {("X", 0, 0), ("X", 1, 2)}), ("I-X I-X", {("X", 0, 1)}),
    ("B-X I-Y I-Y", {("X", 0, 0), ("Y", 1, 2)}), ("O I-X O I-X", {("X", 1, 1), ("X", 3, 3)}),
    ("B-X I-X E-X S-X I-X", {("X", 0, 2), ("X", 3, 3), ("X", 4, 4)}), ("NOUN VERB", set()),
    ("B I O", {("", 0, 1)}),
])  # fmt: skip
def test_spans_of_tags(tags: str, found: set[tuple[str, int, int]]) -> None:
    assert spans(tags.split()) == found


CUT = TaggedExample("1", ("a", "b", "c", "d"), ("B-X", "I-X", "O", "B-X"))
"""Words behind the end of a row have no tags, which are wrong."""


@pytest.mark.parametrize(("task", "examples", "answers", "values"), [
    (COLA, answered(["0", "1"]), ["1", "1"], {"mcc": 0.0, "accuracy": 0.5}),
    (COLA, answered(["1", "1"]), ["1", "1"], {"mcc": 0.0, "accuracy": 1.0}),
    (COLA, answered(["1", "1"]), ["0", "0"], {"mcc": 0.0, "accuracy": 0.0}),
    (MRPC, answered(["0", "0"]), ["0", "0"], {"accuracy": 1.0, "f1": 0.0}),
    (MRPC, answered(["1"]), ["1"], {"accuracy": 1.0, "f1": 1.0}),
    (STSB, answered([2.0]), [2.0], {"pearson": 0.0, "spearman": 0.0}),
    (STSB, answered([1.0, 2.0]), [3.0, 3.0], {"pearson": 0.0, "spearman": 0.0}),
    (STSB, answered([1, 2]), [3, 4], {"pearson": 1.0, "spearman": 1.0}),
    (Regress(train="x"), answered([1, 2]), [4, 3], {"pearson": -1.0, "spearman": -1.0}),
    (Choose(train="x"), [ChoiceExample("1", "", "q", ("a", "b"), 1)], [1], {"accuracy": 1.0}),
    (Classify(train="x", labels=NAMES), answered(["neutral"]), ["no"], {"accuracy": 0.0}),
    (
        Tag(train="x", labels=("O", "B-X", "I-X")), [CUT], [("B-X", "I-X", "", "")],
        {"span_f1": 2 / 3, "accuracy": 0.5},
    ),
])  # fmt: skip
def test_metrics_of_constant_and_short_answers(task, examples, answers, values):
    found = judge(task, examples, answers)
    assert tuple(found) == task.metrics
    assert found == pytest.approx(values, abs=1e-12)
    assert all(type(value) is float and math.isfinite(value) for value in found.values())


def test_nothing_is_judged_without_what_is_right() -> None:
    pytest.raises(DataError, judge, COLA, [], []).match("no examples to score")
    with pytest.raises(DataError, match="`7` has no label"):
        judge(COLA, [TextExample("7", ("a",), None)], ["0"])
    with pytest.raises(DataError, match="`q7` has no label"):
        judge(Squad(data="x", version=2), [QuestionExample("q7", "", "who?", (), None)], [""])


@pytest.mark.parametrize(("version", "right", "said", "em", "f1"), [
    (1, ["The Cat"], "cat", 1, 1), (1, ["cat"], "  a\tCAT! ", 1, 1),
    (1, ["theatre"], "atre", 0, 0), (1, ["U.S."], "us", 1, 1), (1, ["1,000"], "1000", 1, 1),
    (1, ["an-other"], "other", 0, 0),  # punctuation goes first: "another"
    (1, ["it’s"], "its", 0, 0),  # only ASCII punctuation is dropped
    (1, ["a b c", "d"], "d", 1, 1), (1, ["black cat", "cat"], "cat sat", 0, 2 / 3),
    (1, ["cat cat"], "cat", 0, 2 / 3), (1, ["new\u00a0york"], "new york", 1, 1),
    (1, ["new\u2003york\u3000city"], "New York city", 1, 1),
    (1, ["The"], "a", 1, 1),  # both have no words
    (1, ["The", "cat"], "", 1, 1), (1, ["cat"], "", 0, 0),
    (2, [], "", 1, 1), (2, [], "the", 1, 1), (2, [], "cat", 0, 0), (2, ["cat"], "", 0, 0),
    (2, ["the", "cat"], "", 0, 0),  # a right answer without words does not count
    (2, ["the"], "", 1, 1), (2, ["The Cat"], "cat", 1, 1),
])  # fmt: skip
def test_answers_about_passages(version, right, said, em, f1):
    question = QuestionExample("1", "", "who?", tuple((text, 0) for text in right), bool(right))
    found = judge(Squad(data="x", version=version), [question], [said])
    assert found == pytest.approx({"squad_f1": f1, "em": em})
