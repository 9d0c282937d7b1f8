"""Metrics of answers against gold: as scikit-learn, seqeval and conlleval, ranks as trec_eval."""

import math
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from bertc.base.diagnostics import DataError
from bertc.ir.learning import AnyTask, Rerank
from bertc.ir.learning.answer import Labels, Metric, NamedSpans, Several, Span, Tags, Vector
from bertc.tasks.layouts.example import AnswerValue, Examples, SearchExample, TextExample, gold

AnswerValues = Sequence[AnswerValue]
SpanSet = set[tuple[str, int, int]]
"""Spans of a sentence: kind, index of the first word, index of the last."""
ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
Z_95 = 1.96
MOST_RANKED = 100
"""Documents that are ranked for a query."""


def spans(tags: Sequence[str]) -> SpanSet:
    """The spans in the tags of a sentence, IOB, BIO or BIOES, as lenient as conlleval."""
    complete: SpanSet = set()
    part = kind = ""
    first = 0
    for place, tag in enumerate([*tags, "O"]):
        before, kind_before = part, kind
        part, kind = (tag[:1], tag[2:]) if tag[1:2] in ("", "-") else ("", "")
        goes_on = part in ("I", "E") and before in ("B", "I") and kind == kind_before
        if before in ("B", "I", "E", "S") and not goes_on:
            complete.add((kind_before, first, place - 1))
        if not goes_on:
            first = place
    return complete


def judge(task: AnyTask, examples: Examples, answers: AnswerValues) -> dict[str, float]:
    """Score answers by each of ``task.metrics``: 0 to 1, MCC and correlations -1 to 1.

    MCC and correlations are undefined if all answers, or all gold answers, are the same. They count
    as 0 then, so that a model that learned nothing has a number to compare and average.
    """
    if not examples:
        message = "there are no examples to score"
        raise DataError(message, "name a part with labels and at least one row")
    assert len(examples) == len(answers), f"{len(answers)} answers to {len(examples)} examples"
    if isinstance(task, Rerank):
        return _measure_reranked(task, examples, answers)
    metrics, unscored = task.metrics, False
    if isinstance(task.answer, Vector):  # a file may have scores though the task learned from none
        first = examples[0]
        if isinstance(first, SearchExample):
            return _measure_search(task, examples, answers)
        unscored = isinstance(first, TextExample) and (
            isinstance(first.answer, tuple) or (first.answer is None and len(first.texts) > 1)
        )
        metrics = ("accuracy",) if unscored else ("spearman", "pearson")
    # Of a pair without a score the right answer is that no text is nearer than its positive.
    right = [0 if unscored else gold(example) for example in examples]
    if isinstance(task.answer, Span):
        exact, f1 = _agreement(right, answers, task.answer.unanswerable)
        return {"squad_f1": float(np.mean(f1)), "em": float(np.mean(exact))}
    return {metric: _value(metric, task, right, answers) for metric in metrics}


def _measure_reranked(task: Rerank, examples: Examples, answers: AnswerValues) -> dict[str, float]:
    """Metrics of the passages of each query by their scores, over queries with a right one."""
    passages: dict[str, dict[str, tuple[float, float]]] = {}
    for example, score in zip(examples, answers, strict=True):
        assert isinstance(example, TextExample), "passages are judged in pairs"
        query, passage = example.texts
        grade, of_query = gold(example), passages.setdefault(query, {})
        assert isinstance(score, int | float), "a pair has a score"
        assert isinstance(grade, int | float), "a pair has a grade"
        of_query[passage] = score, max(grade, of_query.get(passage, (0.0, 0.0))[1])
    right = [p for p in passages.values() if any(grade > 0 for _, grade in p.values())]
    if not right:
        message = f"no query has a passage with a {task.label} above 0"
        raise DataError(message, "each query needs a right one")
    by_score = [sorted(p.items(), key=lambda item: -item[1][0]) for p in right]
    queries = [
        ([text for text, _ in ranked], {text: grade for text, (_, grade) in ranked if grade > 0})
        for ranked in by_score
    ]
    return ranked_scores(task.metrics, queries)


def _measure_search(task: AnyTask, examples: Examples, answers: AnswerValues) -> dict[str, float]:
    """Metrics of a search, over its queries."""
    queries = list[tuple[tuple[str, ...], dict[str, float]]]()
    for example, answer in zip(examples, answers, strict=True):
        if isinstance(example, SearchExample) and example.relevant is not None:
            assert isinstance(answer, tuple), "a query is answered by keys of documents"
            grades = dict(example.relevant)  # as in BEIR a query does not find itself
            others = (key for key in map(str, answer) if key != example.key or key in grades)
            queries.append((tuple(others), grades))
    return ranked_scores(task.metrics, queries)


def _value(metric: Metric, task: AnyTask, right: AnswerValues, answers: AnswerValues) -> float:
    match metric:
        case "accuracy":  # of examples, for tags of words; 0 if there are none
            if isinstance(task.answer, Tags):
                right, answers = (list(chain(*_tags(side))) for side in (right, answers))
            if isinstance(task.answer, Several):  # the order of labels says nothing
                right, answers = ([(*sorted(v),) for v in _tags(side)] for side in (right, answers))
            hits = sum(a == b for a, b in zip(right, answers, strict=True))
            return hits / max(1, len(right))
        case "f1":  # of one label; 0 if neither side has it, as in scikit-learn
            assert isinstance(task.answer, Labels), "f1 is of labels"
            positive = task.answer.names[1]
            both = sum(a == b == positive for a, b in zip(right, answers, strict=True))
            return 2 * both / max(1, answers.count(positive) + right.count(positive))
        case "micro_f1" | "macro_f1":  # of several labels
            assert isinstance(task.answer, Several), f"{metric} is of several labels"
            right_nc, answers_nc = (
                np.array([[name in labels for name in task.answer.names] for labels in _tags(side)])
                for side in (right, answers)
            )
            both, either = (right_nc & answers_nc).sum(0), right_nc.sum(0) + answers_nc.sum(0)
            if metric == "micro_f1":
                return float(2 * both.sum() / max(1, either.sum()))
            return float((2 * both / either.clip(1)).mean())
        case "mcc":  # Matthews' correlation, for three or more labels R_K (Gorodkin 2004)
            # An answer that is no gold label is one more label, and so is wrong.
            labels = list(dict.fromkeys([*right, *answers]))
            right_nk, answers_nk = (
                np.array([[float(value == label) for label in labels] for value in side])
                for side in (right, answers)
            )
            return _correlation(right_nk, answers_nk)
        case "pearson" | "spearman":  # the mean over columns
            both_sides = zip(_numbers(right), _numbers(answers), strict=True)
            ranked = _ranks if metric == "spearman" else np.asarray
            return fmean(_correlation(ranked(a_n), ranked(b_n)) for a_n, b_n in both_sides)
        case "span_f1":  # a span counts if kind and both ends are right
            known, claimed = ([*map(spans, _tags(side))] for side in (right, answers))
            hits = sum(len(a & b) for a, b in zip(known, claimed, strict=True))
            return 2 * hits / max(1, sum(map(len, known)) + sum(map(len, claimed)))
        case "em" | "squad_f1" | "ndcg@10" | "mrr@10" | "recall@100" | "map":
            raise AssertionError(f"{metric} is of spans or of ranks")
    assert_never(metric)


def _correlation(right_nk: NDArray[np.float64], answers_nk: NDArray[np.float64]) -> float:
    """Covariance by both deviations, summed over columns; 0 if one side is constant."""
    if (right_nk == right_nk[0]).all() or (answers_nk == answers_nk[0]).all():
        return 0.0
    right_nk, answers_nk = right_nk - right_nk.mean(0), answers_nk - answers_nk.mean(0)
    scale = np.sqrt((right_nk**2).sum() * (answers_nk**2).sum())
    return float((right_nk * answers_nk).sum() / scale)


def _ranks(values_n: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1, ties sharing their mean; Spearman's correlation is Pearson's of these."""
    _, kind_n, count_k = np.unique(values_n, return_inverse=True, return_counts=True)
    return np.asarray((count_k.cumsum() - (count_k - 1) / 2)[kind_n])


def _numbers(values: AnswerValues) -> NDArray[np.float64]:
    """The numbers of each column (c, n)."""
    return np.array(values, dtype=np.float64).reshape(len(values), -1).T


def _tags(values: AnswerValues) -> list[tuple[str, ...]]:
    return [tuple(map(str, value)) for value in values if isinstance(value, tuple)]


def _agreement(
    right: AnswerValues, answers: AnswerValues, unanswerable: bool
) -> tuple[list[float], list[float]]:
    """Exact match and F1 of each answer to its nearest gold answer, as in SQuAD's two scripts.

    Answers without words, once articles and punctuation are gone, agree with each other, and are
    right where there is no answer. If a question may have none (``unanswerable``), gold answers
    without words are ignored if there are others, as in the script of SQuAD 2.0.
    """
    exact, f1 = [], []
    for known, answer in zip(right, answers, strict=True):
        assert isinstance(known, tuple), "a question has a tuple of answers"
        golds = [_answer_words(str(text)) for text in known]
        golds = [words for words in golds if words or not unanswerable] or [[]]
        answered = _answer_words(str(answer))
        exact.append(float(answered in golds))
        alike = (sum((Counter(words) & Counter(answered)).values()) for words in golds)
        sizes = (len(words) + len(answered) for words in golds)
        f1.append(max(2 * n / size if size else 1.0 for n, size in zip(alike, sizes, strict=True)))
    return exact, f1


def _answer_words(text: str) -> list[str]:
    """The words compared in an answer: lower case, without ASCII punctuation and articles."""
    return ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split()


@dataclass(frozen=True)
class ClassScore:
    """Scores of one class, 0 to 1; ``support`` is how often it is the right answer."""

    precision: float
    recall: float
    f1: float
    support: int


def wilson(hits: float, count: float) -> tuple[float, float]:
    """The 95% interval of a share of hits (Wilson 1927)."""
    share, slack = hits / count, Z_95 * Z_95 / count
    half = Z_95 * math.sqrt(share * (1 - share) / count + slack / (4 * count))
    low, high = ((share + slack / 2 + sign * half) / (1 + slack) for sign in (-1, 1))
    return max(low, 0.0), min(high, 1.0)


def f1_interval(score: ClassScore) -> tuple[float, float]:
    """The 95% interval of an F1, by Wilson's of right answers among all that are right or given."""
    hits = score.recall * score.support
    low, high = wilson(hits, hits * (2 / score.f1 - 1) if score.f1 else max(1, score.support))
    return 2 * low / (1 + low), 2 * high / (1 + high)


@dataclass(frozen=True)
class ByClass:
    """The scores of each class that was right or answered anywhere, and the mean of their F1."""

    macro_f1: float
    classes: dict[str, ClassScore]


def by_class(task: AnyTask, examples: Examples, answers: AnswerValues) -> ByClass | None:
    """Scores by label, kind of span, or tag where tags name no spans; None of other answers."""
    if not isinstance(task.answer, Labels | Several | Tags | NamedSpans):
        return None
    hits, answered, right = Counter[str](), Counter[str](), Counter[str]()
    for example, answer in zip(examples, answers, strict=True):
        known, claimed = _items(task, gold(example)), _items(task, answer)
        right.update(name for name, *_ in known)
        answered.update(name for name, *_ in claimed)
        hits.update(name for name, *_ in known & claimed)
    classes = dict[str, ClassScore]()
    for name in sorted({*right, *answered}):
        hit, given, support = hits[name], answered[name], right[name]
        f1 = 2 * hit / (given + support)
        classes[name] = ClassScore(hit / (given or 1), hit / (support or 1), f1, support)
    return ByClass(fmean(score.f1 for score in classes.values()), classes) if classes else None


def _items(task: AnyTask, value: AnswerValue) -> SpanSet:
    if not isinstance(value, tuple):
        return {(str(value), 0, 0)}
    names = [str(name) for name in value]
    if "span_f1" in task.metrics:
        return spans(names)
    several = isinstance(task.answer, Several)
    return {(name, 0 if several else place, 0) for place, name in enumerate(names)}


def ranked_scores(
    metrics: Sequence[Metric], queries: Sequence[tuple[Sequence[str], Mapping[str, float]]]
) -> dict[str, float]:
    """Means over queries, each with its documents by rank and the grades of relevant ones."""
    return {m: fmean(_ranked_value(m, *query) for query in queries) for m in metrics}


def _ranked_value(metric: Metric, ranked: Sequence[str], grades: Mapping[str, float]) -> float:
    hits = [rank for rank, key in enumerate(ranked, 1) if key in grades]
    match metric:
        case "mrr@10":
            return 1 / hits[0] if hits and hits[0] <= 10 else 0.0
        case "ndcg@10":
            best = sorted(grades.values(), reverse=True)[:10]
            return _gain([grades.get(key, 0.0) for key in ranked[:10]]) / _gain(best)
        case "recall@100":
            return sum(rank <= 100 for rank in hits) / len(grades)
        case "map":
            return math.fsum(nth / rank for nth, rank in enumerate(hits, 1)) / len(grades)
        case _:
            raise AssertionError(f"{metric} is not of ranks")


def _gain(grades: Sequence[float]) -> float:
    """Discounted cumulative gain (Jarvelin and Kekalainen 2002, grades as they are)."""
    return math.fsum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, 1))
